//! One TCP connection of a program: its TCP ends here, and its bytes travel on a stream of the tunnel.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::http3::Code;
use anabranch::proxy::client::{TcpTunnel, TunnelReceiver, TunnelSender};
use bytes::{Buf, Bytes};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::PollSender;

use super::interface::Host;
use crate::tun::Packet;

/// Size of the buffer of each direction, in bytes. The round trip to this host's kernel takes less than a millisecond.
const BUFFER: usize = 128 * 1024;
/// Number of packets and of rounds after which other flows have their turn.
const TURN: usize = 64;
/// Silence after which a program's host is asked whether it is still there, and time after which it is taken for gone.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const GONE: Duration = Duration::from_secs(300);

/// A TCP connection.
pub(super) struct Flow {
    host: Host,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    inbox: mpsc::Receiver<Packet>,
    out: PollSender<Packet>,
    timer: Pin<Box<Sleep>>,
}

/// The connection's other part: a stream of the tunnel.
struct Stream {
    send: TunnelSender,
    receive: TunnelReceiver,
    /// Bytes from the program that are not on the stream yet.
    up: Bytes,
    /// Bytes from the stream that are not in the socket's buffer yet.
    down: Bytes,
    is_up_over: bool,
    is_down_over: bool,
}

impl Flow {
    /// Creates the connection's end for packets to `destination`.
    pub(super) fn new(
        destination: SocketAddr,
        mtu: usize,
        inbox: mpsc::Receiver<Packet>,
        out: mpsc::Sender<Packet>,
    ) -> Option<Self> {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.set_keep_alive(Some(KEEP_ALIVE.into()));
        socket.set_timeout(Some(GONE.into()));
        socket.listen(destination).ok()?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let timer = Box::pin(sleep(Duration::ZERO));
        Some(Self { host: Host::new(mtu), sockets, handle, inbox, out: PollSender::new(out), timer })
    }

    /// Carries the connection that this SYN begins on a stream, until both have ended.
    pub(super) async fn carry(mut self, syn: Packet, tunnel: TcpTunnel) {
        // The program has repeated its SYN while the tunnel was opened.
        while self.inbox.try_recv().is_ok() {}
        self.host.link.incoming.push_back(syn);
        let (send, receive) = tunnel.into_halves();
        let (up, down) = (Bytes::new(), Bytes::new());
        let mut stream = Stream { send, receive, up, down, is_up_over: false, is_down_over: false };
        poll_fn(|cx| self.poll(cx, &mut stream)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<()> {
        for _ in 0..TURN {
            let mut moved = self.take_packets(cx);
            self.host.poll(&mut self.sockets);
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            // A RST of the program, or it is gone.
            if socket.state() == State::Closed && !stream.is_over() {
                stream.abort();
            }
            moved |= stream.upload(cx, socket) | stream.download(cx, socket);
            moved |= self.write_packets(cx);
            let is_closed = matches!(self.state(), State::Closed | State::TimeWait);
            if moved {
                continue;
            }
            if stream.is_over() && is_closed && self.host.link.outgoing.is_empty() {
                return Poll::Ready(());
            }
            if !self.wait(cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn state(&self) -> State {
        self.sockets.get::<Socket<'_>>(self.handle).state()
    }

    /// Takes packets from the program. Returns whether there were some.
    fn take_packets(&mut self, cx: &mut Context<'_>) -> bool {
        let incoming = &mut self.host.link.incoming;
        let before = incoming.len();
        while incoming.len() < TURN {
            match self.inbox.poll_recv(cx) {
                Poll::Ready(Some(packet)) => incoming.push_back(packet),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        incoming.len() > before
    }

    /// Passes packets to the device. Returns whether that made room.
    fn write_packets(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.host.link.outgoing.is_empty() {
            match self.out.poll_reserve(cx) {
                Poll::Ready(Ok(())) => {
                    let Some(packet) = self.host.link.outgoing.pop_front() else { break };
                    moved |= self.out.send_item(packet).is_ok();
                }
                // The device is gone, and with it the command.
                Poll::Ready(Err(_)) => self.host.link.outgoing.clear(),
                Poll::Pending => break,
            }
        }
        moved
    }

    /// Sets the timer. Returns whether it has expired already.
    fn wait(&mut self, cx: &mut Context<'_>) -> bool {
        let delay = self.host.interface.poll_delay(Instant::now(), &self.sockets);
        // Packets that wait for room are not sent earlier by polling again.
        let Some(delay) = delay.filter(|_| self.host.link.outgoing.is_empty()) else { return false };
        self.timer.as_mut().reset(tokio::time::Instant::now() + delay.into());
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl Stream {
    fn is_over(&self) -> bool {
        self.is_up_over && self.is_down_over
    }

    /// Resets the stream: the connection was reset (RFC 9114 §4.4).
    fn abort(&mut self) {
        self.send.reset(Code::CONNECT_ERROR);
        self.receive.stop(Code::CONNECT_ERROR);
        (self.is_up_over, self.is_down_over) = (true, true);
    }

    /// Resets the connection: the stream was reset, or the tunnel is lost.
    fn fail(&mut self, socket: &mut Socket<'_>) {
        socket.abort();
        self.abort();
    }

    /// Moves bytes from the program to the stream, and its end. Returns whether something was moved.
    fn upload(&mut self, cx: &Context<'_>, socket: &mut Socket<'_>) -> bool {
        let mut moved = false;
        while !self.is_up_over {
            if self.up.is_empty() {
                if let Ok(bytes) = socket.recv(|bytes| (bytes.len(), Bytes::copy_from_slice(bytes)))
                    && !bytes.is_empty()
                {
                    self.up = bytes;
                } else if is_finished(socket.state()) {
                    // The stream ends as the connection does; if it was stopped, that is known already.
                    let _ = self.send.finish();
                    self.is_up_over = true;
                    return true;
                } else {
                    break;
                }
            }
            match self.send.poll_write(cx, &mut self.up) {
                Poll::Ready(Ok(_)) => {}
                // The target's side wants no more, but may still send.
                Poll::Ready(Err(error)) if error.is_enough() => self.is_up_over = true,
                Poll::Ready(Err(_)) => self.fail(socket),
                Poll::Pending => break,
            }
            moved = true;
        }
        moved
    }

    /// Moves bytes from the stream to the program, and their end. Returns whether something was moved.
    fn download(&mut self, cx: &Context<'_>, socket: &mut Socket<'_>) -> bool {
        let mut moved = false;
        while !self.is_down_over && socket.may_send() {
            if self.down.is_empty() {
                let room = socket.send_capacity() - socket.send_queue();
                if room == 0 {
                    break;
                }
                match self.receive.poll_read_chunk(cx, room) {
                    Poll::Ready(Ok(Some(bytes))) => self.down = bytes,
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

/// Returns whether the program has ended its direction.
fn is_finished(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait)
}
