//! Sockets of the relay. They never block, and one system call handles as many datagrams as the kernel coalesces.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use anabranch_wire::Ecn;
use mio::{Interest, Registry, Token};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::packet::Packet;

/// Size in bytes of the kernel buffer that is requested in each direction, so that only the link drops
/// packets.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of datagrams sent with one system call.
const MAX_SEGMENTS: usize = 32;
/// Maximum number of bytes sent with one system call; about UDP's largest payload.
const MAX_BATCH_BYTES: usize = 65_000;
/// Maximum number of bytes of a UDP payload, and of a batch that the kernel coalesces.
pub(super) const MAX_RECEIVE_BYTES: usize = 65_536;

/// A bound UDP socket.
#[derive(Debug)]
pub(super) struct Socket {
    io: mio::net::UdpSocket,
    state: UdpSocketState,
}

/// Datagrams of one sender, received together.
pub(super) struct Arrived {
    pub(super) from: SocketAddr,
    ecn: Option<Ecn>,
    /// Length of each datagram except the last one, which may be shorter.
    stride: usize,
    bytes: Vec<u8>,
}

impl Socket {
    /// Binds a socket, which `registry` reports as `token` when it becomes readable.
    pub(super) fn bind(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut io = mio::net::UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // The system may grant less.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        registry.register(&mut io, token, Interest::READABLE)?;
        Ok(Self { io, state })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Reads datagrams. `buffer` is scratch memory for the duration of the call.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrived> {
        let mut meta = [RecvMeta::default()];
        // A single buffer is passed, because a call with several buffers would wait until all are full.
        // Through mio, which on Windows reports a socket once, and again only after it has seen that a read would block.
        self.io.try_io(|| {
            self.state.recv(UdpSockRef::from(&self.io), &mut [IoSliceMut::new(buffer)], &mut meta)
        })?;
        let [RecvMeta { addr, len, stride, ecn, .. }] = meta;
        let ecn = ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
        Ok(Arrived { from: addr, ecn, stride: stride.max(1), bytes: buffer[..len].to_vec() })
    }

    /// Sends datagrams to one destination. If the kernel refuses them, they are lost, as in any network.
    fn send(&self, destination: SocketAddr, ecn: Option<Ecn>, stride: usize, contents: &[u8]) {
        let ecn = ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let several = stride < contents.len();
        let batch =
            Transmit { destination, ecn, contents, segment_size: several.then_some(stride), src_ip: None };
        let sent = self.state.try_send(UdpSockRef::from(&self.io), &batch);
        if sent.is_err() && several {
            for contents in contents.chunks(stride) {
                let single = Transmit { segment_size: None, contents, ..batch };
                let _ = self.state.try_send(UdpSockRef::from(&self.io), &single);
            }
        }
    }
}

impl Arrived {
    /// Returns the datagrams, each with its ECN codepoint.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (Option<Ecn>, &[u8])> {
        // An empty read is one datagram without payload.
        let one = self.bytes.is_empty().then_some(&[][..]);
        one.into_iter().chain(self.bytes.chunks(self.stride)).map(|bytes| (self.ecn, bytes))
    }
}

/// Packets for one destination, queued to be sent with one system call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    destination: Option<(SocketAddr, Option<Ecn>)>,
    stride: usize,
    /// `true` after a packet that is shorter than the first one, because no other may follow it.
    is_full: bool,
    bytes: Vec<u8>,
}

impl Batch {
    /// Adds a packet. Sends the queued packets before if one system call cannot send them together with this
    /// packet.
    pub(super) fn add(&mut self, socket: &Socket, packet: &Packet) {
        let len = packet.payload.len();
        let target = (packet.destination, packet.ecn);
        let fits = self.destination == Some(target)
            && !self.is_full
            && len > 0
            && len <= self.stride
            && self.bytes.len() + len <= (self.stride * MAX_SEGMENTS).min(MAX_BATCH_BYTES);
        if !fits {
            self.flush(socket);
            self.destination = Some(target);
            self.stride = len;
        }
        self.is_full = len < self.stride || self.stride == 0;
        self.bytes.extend_from_slice(&packet.payload);
    }

    /// Sends the queued packets.
    pub(super) fn flush(&mut self, socket: &Socket) {
        if let Some((destination, ecn)) = self.destination.take() {
            socket.send(destination, ecn, self.stride, &self.bytes);
        }
        self.bytes.clear();
        self.is_full = false;
    }
}

#[cfg(test)]
mod tests;
