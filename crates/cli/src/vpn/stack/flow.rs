//! One TCP connection of a program, which ends here and whose bytes are carried on a stream of the tunnel.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::http3::Code;
use anabranch::proxy::client::{TunnelReceiver, TunnelSender};
use bytes::{Buf, Bytes};
use smoltcp::socket::tcp::{Socket, State};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::PollSender;

use super::end::End;
use crate::proxy::connect::link::Client;
use crate::proxy::connect::{seen, stream};
use crate::tun::Packet;

/// Number of packets and of rounds after which other flows have their turn.
const TURN: usize = 64;

/// A TCP connection of a program, with an interface and a socket of its own.
pub(super) struct Flow {
    end: End,
    inbox: mpsc::Receiver<Packet>,
    out: PollSender<Packet>,
    timer: Pin<Box<Sleep>>,
}

/// Stream of the tunnel that carries the connection.
struct Stream {
    send: TunnelSender,
    receive: TunnelReceiver,
    /// Bytes from the program that are not on the stream yet.
    up: Bytes,
    /// Bytes from the stream that are not in the socket's buffer yet.
    down: Bytes,
    is_up_over: bool,
    is_down_over: bool,
    account: seen::Flow,
    /// Keeps the paths managed while the stream is open.
    _client: Client,
}

impl Flow {
    /// Creates a socket that accepts one connection to `destination`; `None` if the port is 0.
    pub(super) fn new(
        destination: SocketAddr,
        mtu: usize,
        syn: Packet,
        inbox: mpsc::Receiver<Packet>,
        out: mpsc::Sender<Packet>,
    ) -> Option<Self> {
        let end = End::new(destination, mtu, syn)?;
        Some(Self { end, inbox, out: PollSender::new(out), timer: Box::pin(sleep(Duration::ZERO)) })
    }

    /// Carries the connection on a stream, until both have ended.
    pub(super) async fn carry(mut self, opened: stream::Stream) {
        // The program has repeated its SYN while the tunnel was opened.
        while self.inbox.try_recv().is_ok() {}
        let mut stream = Stream::new(opened);
        poll_fn(|cx| self.poll(cx, &mut stream)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<()> {
        for _ in 0..TURN {
            let mut moved = self.take_packets(cx);
            self.end.poll();
            let socket = self.end.socket();
            // A RST of the program, or it is gone.
            if socket.state() == State::Closed && !stream.is_over() {
                stream.abort();
            }
            moved |= stream.upload(cx, socket);
            moved |= self.write_packets(cx);
            // The socket is replaced before it gets further bytes.
            moved |= self.end.grow();
            if !self.end.is_draining() {
                moved |= stream.download(cx, self.end.socket());
                self.end.look();
            }
            let is_closed = matches!(self.end.state(), State::Closed | State::TimeWait);
            if moved {
                continue;
            }
            if stream.is_over() && is_closed && self.end.outgoing().is_empty() {
                return Poll::Ready(());
            }
            if !self.wait(cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes packets from the program. Returns whether there were some.
    fn take_packets(&mut self, cx: &mut Context<'_>) -> bool {
        let incoming = self.end.incoming();
        let before = incoming.len();
        while incoming.len() < TURN {
            match self.inbox.poll_recv(cx) {
                Poll::Ready(Some(packet)) => incoming.push_back(packet),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        incoming.len() > before
    }

    /// Queues packets for the device. Returns whether there were any and the queue had room.
    fn write_packets(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.end.outgoing().is_empty() {
            match self.out.poll_reserve(cx) {
                Poll::Ready(Ok(())) => {
                    let Some(packet) = self.end.outgoing().pop_front() else { break };
                    moved |= self.out.send_item(packet).is_ok();
                }
                // The device is gone, and with it the command.
                Poll::Ready(Err(_)) => self.end.outgoing().clear(),
                Poll::Pending => break,
            }
        }
        moved
    }

    /// Sets the timer to the socket's next deadline. Returns whether that has passed already.
    fn wait(&mut self, cx: &mut Context<'_>) -> bool {
        // Packets that wait for room are not sent earlier by polling again.
        let Some(delay) = self.end.delay().filter(|_| self.end.outgoing().is_empty()) else { return false };
        self.timer.as_mut().reset(Instant::now() + delay);
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl Stream {
    fn new(opened: stream::Stream) -> Self {
        let (tunnel, account, client) = opened.into_parts();
        let (send, receive) = tunnel.into_halves();
        let (up, down) = (Bytes::new(), Bytes::new());
        Self { send, receive, up, down, is_up_over: false, is_down_over: false, account, _client: client }
    }

    fn is_over(&self) -> bool {
        self.is_up_over && self.is_down_over
    }

    /// Resets the stream, because the connection was reset (RFC 9114 §4.4).
    fn abort(&mut self) {
        self.send.reset(Code::CONNECT_ERROR);
        self.receive.stop(Code::CONNECT_ERROR);
        (self.is_up_over, self.is_down_over) = (true, true);
    }

    /// Resets the connection and the stream, because the stream was reset or the tunnel is lost.
    fn fail(&mut self, socket: &mut Socket<'_>) {
        socket.abort();
        self.abort();
    }

    /// Moves bytes of the program, and the end of its direction, to the stream. Returns whether anything was moved.
    fn upload(&mut self, cx: &Context<'_>, socket: &mut Socket<'_>) -> bool {
        let mut moved = false;
        while !self.is_up_over {
            if self.up.is_empty() {
                if let Ok(bytes) = socket.recv(|bytes| (bytes.len(), Bytes::copy_from_slice(bytes)))
                    && !bytes.is_empty()
                {
                    self.up = bytes;
                } else if is_finished(socket.state()) {
                    // An error means that the proxy has stopped the stream, which needs no end then.
                    let _ = self.send.finish();
                    self.is_up_over = true;
                    return true;
                } else {
                    break;
                }
            }
            match self.send.poll_write(cx, &mut self.up) {
                Poll::Ready(Ok(n)) => self.account.traffic().add_sent(n as u64),
                // The target's side needs no more bytes, but may still send.
                Poll::Ready(Err(error)) if error.is_enough() => self.is_up_over = true,
                Poll::Ready(Err(_)) => self.fail(socket),
                Poll::Pending => break,
            }
            moved = true;
        }
        moved
    }

    /// Moves bytes of the stream, and its end, to the program. Returns whether anything was moved.
    fn download(&mut self, cx: &Context<'_>, socket: &mut Socket<'_>) -> bool {
        let mut moved = false;
        while !self.is_down_over && socket.may_send() {
            if self.down.is_empty() {
                let room = socket.send_capacity() - socket.send_queue();
                if room == 0 {
                    break;
                }
                match self.receive.poll_read_chunk(cx, room) {
                    Poll::Ready(Ok(Some(bytes))) => {
                        self.account.traffic().add_received(bytes.len() as u64);
                        self.down = bytes;
                    }
                    Poll::Ready(Ok(None)) => {
                        socket.close();
                        self.is_down_over = true;
                        return true;
                    }
                    Poll::Ready(Err(_)) => {
                        self.fail(socket);
                        return true;
                    }
                    Poll::Pending => break,
                }
            }
            match socket.send_slice(&self.down) {
                Ok(0) | Err(_) => break,
                Ok(n) => self.down.advance(n),
            }
            moved = true;
        }
        moved
    }
}

/// Returns whether the program has ended its direction (FIN).
fn is_finished(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait)
}
