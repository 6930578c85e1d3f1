//! The end of a program's TCP connection: a socket of the user-space stack, with an interface of its own.
//!
//! The buffers of such sockets have a fixed size. A connection begins with small ones. As soon as they are full, and nothing is on
//! its way between the program's host and the socket, another socket with large buffers takes its place. It learns the
//! connection's state by a handshake of its own, of which the program's host sees nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;

use super::interface::Host;
use super::numbers::{self, Numbers};
use crate::tun::Packet;

/// Sizes of a socket's buffers, in bytes: of received bytes, and of those that are sent. The round trip to this host's kernel takes
/// less than a millisecond.
type Sizes = (usize, usize);
const SMALL: Sizes = (16 * 1024, 16 * 1024);
/// Received bytes have the greatest window without a scale, which was agreed on with the small buffers.
const LARGE: Sizes = (65_535, 128 * 1024);
/// Silence after which a program's host is asked whether it is still there, and time after which it is taken for gone.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const GONE: Duration = Duration::from_secs(300);

/// The end of a connection.
pub(super) struct End {
    host: Host,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    destination: SocketAddr,
    /// The packet that began the connection.
    syn: Packet,
    size: Size,
}

/// Size of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small,
    /// The buffers are small, and were full.
    Cramped,
    /// The buffers are large, or the connection is about to end.
    Final,
}

impl End {
    /// Creates the end of the connection to `destination` that this SYN begins.
    pub(super) fn new(destination: SocketAddr, mtu: usize, syn: Packet) -> Option<Self> {
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket(destination, SMALL)?);
        let mut host = Host::new(mtu);
        host.link.incoming.push_back(syn.clone());
        Some(Self { host, sockets, handle, destination, syn, size: Size::Small })
    }

    /// Returns the queue of packets from the program's host.
    pub(super) fn incoming(&mut self) -> &mut VecDeque<Packet> {
        &mut self.host.link.incoming
    }

    /// Returns the queue of packets to the program's host.
    pub(super) fn outgoing(&mut self) -> &mut VecDeque<Packet> {
        &mut self.host.link.outgoing
    }

    pub(super) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    pub(super) fn state(&self) -> State {
        self.sockets.get::<Socket<'_>>(self.handle).state()
    }

    /// Handles received packets and timers, and sends what is due.
    pub(super) fn poll(&mut self) {
        self.host.poll(&mut self.sockets);
        self.look();
    }

    /// Returns the time until [`End::poll`] has something to do without further packets.
    pub(super) fn delay(&mut self) -> Option<Duration> {
        self.host.interface.poll_delay(Instant::now(), &self.sockets).map(Duration::from)
    }

    /// Notices that a buffer is full.
    pub(super) fn look(&mut self) {
        if self.size == Size::Final {
            return;
        }
        let socket = self.socket();
        let is_full = socket.send_queue() == socket.send_capacity()
            || socket.recv_queue() * 4 >= socket.recv_capacity() * 3;
        self.size = match self.state() {
            State::Listen | State::SynReceived | State::Established if is_full => Size::Cramped,
            State::Listen | State::SynReceived | State::Established => self.size,
            // Neither direction is going to be busy for long.
            _ => Size::Final,
        };
    }

    /// Returns whether the socket should get no more bytes to send, because another one is about to take its place.
    pub(super) fn is_draining(&mut self) -> bool {
        self.size == Size::Cramped && self.socket().send_queue() > 0
    }

    /// Replaces the socket by one with large buffers if the small ones were full and nothing is on its way. Returns whether it did.
    pub(super) fn grow(&mut self) -> bool {
        if self.size != Size::Cramped || !self.is_quiet() {
            return false;
        }
        let before = self.host.link.numbers;
        let grown = self.replace(before).is_some();
        if !grown {
            self.host.link.numbers = before;
            self.host.link.incoming.clear();
            self.host.link.outgoing.clear();
        }
        self.size = Size::Final;
        grown
    }

    /// Returns whether all that was sent in either direction has arrived, and was acknowledged and taken.
    fn is_quiet(&mut self) -> bool {
        let link = &self.host.link;
        let is_idle = link.incoming.is_empty() && link.outgoing.is_empty();
        let is_acknowledged = link.numbers.received == link.numbers.acknowledged;
        let socket = self.socket();
        let is_empty = socket.send_queue() == 0 && socket.recv_queue() == 0;
        is_idle && is_acknowledged && is_empty && socket.state() == State::Established
    }

    /// Replaces the socket by one that takes over from these numbers. If that fails, the socket is the same as before, but the link
    /// is not.
    fn replace(&mut self, before: Numbers) -> Option<()> {
        let (sent, received) = (before.sent?, before.received?);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket(self.destination, LARGE)?);
        let host = &mut self.host;
        host.link.numbers = Numbers::default();
        host.link.incoming.push_back(numbers::syn(&self.syn, received - 1)?);
        host.poll(&mut sockets);
        // The number after the SYN of the new socket.
        let first = host.link.numbers.sent?;
        host.link.outgoing.clear();
        host.link.incoming.push_back(numbers::acknowledgment(&self.syn, received, first, before.window)?);
        host.poll(&mut sockets);
        let socket = sockets.get::<Socket<'_>>(handle);
        if socket.state() != State::Established || !host.link.outgoing.is_empty() {
            return None;
        }
        host.link.numbers = Numbers { shift: first.0.wrapping_sub(sent.0), ..before };
        // Is answered with an acknowledgment, from which the program's host learns the larger window.
        host.link.incoming.push_back(numbers::acknowledgment(&self.syn, received - 1, sent, before.window)?);
        host.poll(&mut sockets);
        (self.sockets, self.handle) = (sockets, handle);
        Some(())
    }
}

fn socket(destination: SocketAddr, sizes: Sizes) -> Option<Socket<'static>> {
    let (received, sent) = sizes;
    let mut socket = Socket::new(SocketBuffer::new(vec![0; received]), SocketBuffer::new(vec![0; sent]));
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket.set_keep_alive(Some(KEEP_ALIVE.into()));
    socket.set_timeout(Some(GONE.into()));
    socket.listen(destination).ok()?;
    Some(socket)
}
