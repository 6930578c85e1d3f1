//! One TCP connection of a program, which ends here and whose bytes are carried on a stream of the tunnel.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::http3::{Code, Error, RecvHalf, SendHalf};
use anabranch::proxy::client::TcpTunnel;
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
/// Maximum number of received packets that wait, and of rounds of work before the task yields to other tasks.
const TURN: usize = 64;
/// Time without segments after which a TCP keep-alive is sent to the program and, below, time without a response after
/// which the connection is aborted.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const GONE: Duration = Duration::from_secs(300);

/// A TCP connection of a program, with an interface and a socket of its own.
pub(super) struct Flow {
    host: Host,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    inbox: mpsc::Receiver<Packet>,
    out: PollSender<Packet>,
    timer: Pin<Box<Sleep>>,
}

/// Stream of the tunnel that carries the connection.
struct Stream {
    send: SendHalf,
    receive: RecvHalf,
    /// Bytes from the program that are not on the stream yet.
    up: Bytes,
    /// Bytes from the stream that are not in the socket's buffer yet.
    down: Bytes,
    is_up_over: bool,
    is_down_over: bool,
}

impl Flow {
    /// Creates a socket that accepts one connection to `destination`; `None` if the port is 0.
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

    /// Accepts the connection that `syn` begins, and carries it on the tunnel's stream, until both have ended.
    pub(super) async fn carry(mut self, syn: Packet, tunnel: TcpTunnel) {
        // Packets that arrived while the tunnel was opened are repetitions of the SYN.
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
            // The program has sent a RST, or does not respond.
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

    /// Takes packets from the program. Returns whether there were any.
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

    /// Queues packets for the device. Returns whether there were any and the queue had room.
    fn write_packets(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.host.link.outgoing.is_empty() {
            match self.out.poll_reserve(cx) {
                Poll::Ready(Ok(())) => {
                    let Some(packet) = self.host.link.outgoing.pop_front() else { break };
                    moved |= self.out.send_item(packet).is_ok();
                }
                // The queue is closed, because the command ends.
                Poll::Ready(Err(_)) => self.host.link.outgoing.clear(),
                Poll::Pending => break,
            }
        }
        moved
    }

    /// Sets the timer to the socket's next deadline. Returns whether that has passed already.
    fn wait(&mut self, cx: &mut Context<'_>) -> bool {
        let delay = self.host.interface.poll_delay(Instant::now(), &self.sockets);
        // While packets wait for room in the device's queue, the queue wakes the task, and the timer is not needed.
        let Some(delay) = delay.filter(|_| self.host.link.outgoing.is_empty()) else { return false };
        self.timer.as_mut().reset(tokio::time::Instant::now() + delay.into());
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl Stream {
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
                Poll::Ready(Ok(_)) => {}
                // RFC 9114 §4.1: with H3_NO_ERROR the proxy needs no further bytes, but may still send its own.
                Poll::Ready(Err(Error::Stopped(Code::NO_ERROR))) => self.is_up_over = true,
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

/// Returns whether the program has ended its direction (FIN).
fn is_finished(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait)
}
