//! A UDP socket with everything the operating system offers to QUIC: batches (recvmmsg), segmentation offload (GSO and
//! GRO), ECN marks, and the local address of each datagram.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use anabranch_transport::{Datagram, FourTuple, Transmit};
use anabranch_wire::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Buffers filled by one system call at most. With GRO each may hold 64 datagrams.
pub(crate) const RECEIVE_BUFFERS: usize = 16;
/// No UDP payload is longer, and neither is what GRO glues together.
const RECEIVE_BUFFER_BYTES: usize = 65_536;
/// Asked of the kernel for either direction: a few round trips' worth of a fast path, so that a busy core loses nothing.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;

/// One bound UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::new(std::net::UdpSocket::bind(address)?)
    }

    pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let io = UdpSocket::from_std(socket)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // The kernel may grant less; that costs speed under load and nothing else.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let local = io.local_addr()?;
        Ok(Self { io, state, local })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether datagrams of a path with this local address leave through this socket.
    pub(crate) fn serves(&self, local: SocketAddr) -> bool {
        local.port() == self.local.port()
            && (self.local.ip().is_unspecified() || local.ip() == self.local.ip())
    }

    /// How `remote` is written on this socket: IPv6 sockets reach IPv4 hosts through mapped addresses. `None` if they
    /// cannot be reached.
    pub(crate) fn address_for(&self, remote: SocketAddr) -> Option<SocketAddr> {
        match (self.local, remote) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) => None,
            _ => Some(remote),
        }
    }

    /// Datagrams that one [`Socket::send`] may hold.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Hands one batch to the kernel; `WouldBlock` is the only error. Whatever else happens to datagrams is loss, and
    /// recovery's business: sizes beyond the interface's MTU, unreachable networks, full queues.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        // After a rebinding the path may still name the socket before this one: then the kernel chooses.
        let source = Some(transmit.tuple.local).filter(|local| self.serves(*local)).map(|local| local.ip());
        let transmit = quinn_udp::Transmit {
            destination: transmit.tuple.remote,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: (transmit.segment_size < contents.len()).then_some(transmit.segment_size),
            src_ip: source.filter(|ip| !ip.is_unspecified()),
        };
        let send = || self.state.try_send((&self.io).into(), &transmit);
        let mut sent = send();
        if is_full(&sent) {
            // Once more through the runtime, which has to learn that the socket is full before it can wait for room. It
            // is not asked at first, because it takes a new socket for a full one.
            sent = self.io.try_io(Interest::WRITABLE, send);
        }
        if is_full(&sent) { sent } else { Ok(()) }
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    /// Fills `batch` with what has arrived. Errors that the next call may not meet again are swallowed.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let received = self.io.try_io(Interest::READABLE, || batch.fill(self));
            match received {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An ICMP message about something sent earlier (RFC 9000 §14.2.1 allows to ignore it).
                Err(error) if is_about_a_peer(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

fn is_full(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn is_about_a_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}

/// Memory for one system call's worth of datagrams, used again and again.
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
    meta: [RecvMeta; RECEIVE_BUFFERS],
    filled: usize,
    local: SocketAddr,
}

impl Default for ReceiveBatch {
    /// Without memory: stands in for one that is in use elsewhere.
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
            filled: 0,
            local: SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0),
        }
    }
}

impl ReceiveBatch {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_BYTES], ..Self::default() }
    }

    fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        self.filled = 0;
        let mut chunks = self.bytes.chunks_exact_mut(RECEIVE_BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        self.filled = socket.state.recv((&socket.io).into(), &mut slices, &mut self.meta)?;
        self.local = socket.local;
        Ok(())
    }

    /// The datagrams in the order of arrival, borrowed from this memory.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let local = self.local;
        let buffers = self.bytes.chunks_exact_mut(RECEIVE_BUFFER_BYTES);
        self.meta[..self.filled].iter().zip(buffers).flat_map(move |(meta, buffer)| {
            let ip = meta.dst_ip.unwrap_or_else(|| local.ip());
            let tuple = FourTuple { local: SocketAddr::new(ip, local.port()), remote: meta.addr };
            let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
            buffer[..meta.len].chunks_mut(meta.stride.max(1)).map(move |payload| Datagram {
                tuple,
                ecn,
                payload,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn receive(socket: &Socket, batch: &mut ReceiveBatch) {
        std::future::poll_fn(|cx| socket.poll_receive(cx, batch)).await.unwrap();
    }

    /// Batches keep datagram borders, marks and addresses, on the wildcard address as well.
    #[tokio::test]
    async fn a_batch_arrives_as_it_was_sent() {
        let a = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let b = Socket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let b_address = SocketAddr::new([127, 0, 0, 1].into(), b.local_addr().port());
        let segments = a.max_segments().min(3);
        let contents: Vec<u8> =
            (0..segments as u8).flat_map(|i| vec![i; 1200]).take(segments * 1200 - 200).collect();
        let tuple = FourTuple { local: a.local_addr(), remote: b_address };
        let transmit = Transmit {
            tuple,
            ecn: Some(Ecn::Ect0),
            len: contents.len(),
            segment_size: 1200.min(contents.len()),
        };
        a.send(&transmit, &contents).unwrap();

        let mut batch = ReceiveBatch::new();
        let mut received = Vec::new();
        while received.len() < segments {
            receive(&b, &mut batch).await;
            for datagram in batch.datagrams() {
                assert_eq!(datagram.tuple, FourTuple { local: b_address, remote: a.local_addr() });
                assert_eq!(datagram.ecn, Some(Ecn::Ect0));
                received.push(datagram.payload.to_vec());
            }
        }
        assert_eq!(received.concat(), contents);
        assert!(received[..segments - 1].iter().all(|payload| payload.len() == 1200));
    }

    #[tokio::test]
    async fn sockets_know_whom_they_serve() {
        let wildcard = Socket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = wildcard.local_addr().port();
        assert!(wildcard.serves(SocketAddr::new([127, 0, 0, 1].into(), port)));
        assert!(!wildcard.serves(SocketAddr::new([127, 0, 0, 1].into(), port ^ 1)));
        assert!(wildcard.address_for("[::1]:1".parse().unwrap()).is_none());
        let Ok(v6) = Socket::bind("[::]:0".parse().unwrap()) else { return };
        let mapped = v6.address_for("192.0.2.1:4".parse().unwrap());
        assert_eq!(mapped, Some("[::ffff:192.0.2.1]:4".parse().unwrap()));
    }
}
