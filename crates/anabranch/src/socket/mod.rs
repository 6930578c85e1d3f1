//! A UDP socket with the features that the operating system offers for QUIC: batches (recvmmsg), segmentation
//! offload (GSO and GRO), ECN marks, and the local address of each datagram.

mod batch;
mod errors;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, ready};

use anabranch_transport::Transmit;
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use self::batch::RECEIVE_BUFFERS;
pub(crate) use self::batch::ReceiveBatch;
pub(crate) use self::errors::Refusal;
use crate::paths::LocalAddress;

/// Requested size in bytes of the kernel's send and receive buffers: a few round trips of a fast path, so
/// that no datagrams are lost while the core is busy.
const KERNEL_BUFFER_BYTES: usize = 4 << 20;
/// Error that some interfaces without segmentation offload return if it is used; the number is the same on
/// every Unix.
const EIO: i32 = 5;
/// Error that the socket's interface is gone; the number is the same on every Unix.
const ENODEV: i32 = 19;

/// Maximum number of consecutive receive errors; after that the socket counts as broken.
const MAX_RECEIVE_ERRORS: usize = 64;

/// Result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Number of bytes that need no further handling; fewer than all if the socket is full.
    pub(crate) done: usize,
    /// System's error code if the host reports that it cannot send between these addresses.
    pub(crate) unreachable: Option<i32>,
}

/// One bound UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    /// Features that the kernel offers, as far as known.
    state: RwLock<UdpSocketState>,
    local: SocketAddr,
    /// Maximum number of buffers that one system call fills.
    receive_buffers: AtomicUsize,
    /// `true` while a task reads ICMP messages about sent datagrams. Any call may then fail because of such a
    /// message.
    listened_to: AtomicBool,
}

impl Socket {
    #[cfg(test)]
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::at(&LocalAddress::from(address))
    }

    /// Binds a socket for a path.
    pub(crate) fn at(local: &LocalAddress) -> io::Result<Self> {
        Self::new(local.bind()?)
    }

    pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let io = UdpSocket::from_std(socket)?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // The kernel may grant less, which only reduces the speed under load.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), KERNEL_BUFFER_BYTES);
        let local = io.local_addr()?;
        Ok(Self {
            io,
            state: RwLock::new(state),
            local,
            receive_buffers: AtomicUsize::new(RECEIVE_BUFFERS),
            listened_to: AtomicBool::new(false),
        })
    }

    /// Returns a duplicate of the socket, for another process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn duplicate(&self) -> io::Result<std::os::fd::OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.io).try_clone_to_owned()
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether this socket sends the datagrams of a path with this local address.
    pub(crate) fn serves(&self, local: SocketAddr) -> bool {
        local.port() == self.local.port()
            && (local.ip() == self.local.ip()
                || self.local.ip().is_unspecified() && (self.local.is_ipv6() || local.is_ipv4()))
    }

    /// Returns the form of `remote` that this socket uses: IPv6 sockets reach IPv4 hosts by IPv4-mapped
    /// addresses. `None` if the socket cannot reach `remote`.
    pub(crate) fn address_for(&self, remote: SocketAddr) -> Option<SocketAddr> {
        match (self.local, remote) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) => None,
            _ => Some(remote),
        }
    }

    /// Returns the maximum number of datagrams that the kernel accepts in one call.
    pub(crate) fn max_segments(&self) -> usize {
        self.state().max_gso_segments()
    }

    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes one batch to the kernel. Failures that the result does not report count as packet loss, for
    /// instance full queues, or datagrams that exceed the interface's MTU.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> Sent {
        // After a rebinding, the path may still name the address of the previous socket. The kernel then
        // chooses the source address.
        let source = Some(transmit.tuple.local).filter(|local| self.serves(*local)).map(|local| local.ip());
        let mut batch = quinn_udp::Transmit {
            destination: transmit.tuple.remote,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: (transmit.segment_size < contents.len()).then_some(transmit.segment_size),
            src_ip: source.filter(|ip| !ip.is_unspecified()),
        };
        if batch.segment_size.is_some() && self.max_segments() == 1 {
            return self.send_singly(&batch);
        }
        let mut sent = self.try_send(&batch);
        if batch.src_ip.is_some() && sent.as_ref().is_err_and(is_about_the_source) {
            self.renew_state();
            // The host has lost the address since the path began to use it. The kernel chooses another one,
            // which the path learns from the peer's responses.
            batch.src_ip = None;
            sent = self.try_send(&batch);
        }
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent { done: 0, unreachable: None },
            Err(error) if batch.segment_size.is_some() && is_about_segmentation(&error) => {
                self.send_singly(&batch)
            }
            sent => Sent { done: contents.len(), unreachable: sent.err().and_then(|error| obstacle(&error)) },
        }
    }

    fn try_send(&self, batch: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        let send = || self.state().try_send((&self.io).into(), batch);
        let mut sent = send();
        if self.is_listened_to() && sent.as_ref().is_err_and(is_about_a_peer) {
            // The error may concern an earlier datagram. This call has then only reported the error and sent
            // nothing, so it is repeated.
            sent = send();
        }
        match sent {
            // The call is repeated through the runtime, which must know that the socket is full before it can
            // wait for room. The first call bypasses the runtime, because the runtime takes a new socket for
            // a full one.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.io.try_io(Interest::WRITABLE, send)
            }
            sent => sent,
        }
    }

    /// Detects the kernel's features again. An `EINVAL` switches segmentation offload and ECN off
    /// permanently, but here the source address was the cause.
    fn renew_state(&self) {
        if let Ok(state) = UdpSocketState::new(UdpSockRef::from(&self.io)) {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }

    /// Sends the datagrams of a batch one by one, because the interface has no segmentation offload.
    fn send_singly(&self, batch: &quinn_udp::Transmit<'_>) -> Sent {
        let (mut done, mut unreachable) = (0, None);
        for contents in batch.contents.chunks(batch.segment_size.unwrap_or(batch.contents.len()).max(1)) {
            let &quinn_udp::Transmit { destination, ecn, src_ip, .. } = batch;
            let single = quinn_udp::Transmit { destination, ecn, contents, segment_size: None, src_ip };
            match self.try_send(&single) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                sent => unreachable = unreachable.or(sent.err().and_then(|error| obstacle(&error))),
            }
            done += contents.len();
        }
        Sent { done, unreachable }
    }

    /// Sets the maximum number of buffers that a system call fills from now on.
    pub(crate) fn set_receive_buffers(&self, buffers: usize) {
        self.receive_buffers.store(buffers.clamp(1, RECEIVE_BUFFERS), Ordering::Relaxed);
    }

    /// Returns whether a task reads ICMP messages about sent datagrams.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.listened_to.load(Ordering::Relaxed)
    }

    /// Records whether a task reads ICMP messages about sent datagrams. Returns whether one did before.
    pub(crate) fn set_listened_to(&self, listened_to: bool) -> bool {
        self.listened_to.swap(listened_to, Ordering::Relaxed)
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    /// Fills `batch` with received datagrams. Ignores errors about earlier datagrams, at most
    /// `MAX_RECEIVE_ERRORS` in a row.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<io::Result<()>> {
        let mut errors = 0;
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let received = self.io.try_io(Interest::READABLE, || batch.fill(self));
            match received {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The error reports an ICMP message about an earlier datagram, which may be ignored (RFC 9000
                // §14.2.1).
                Err(error)
                    if errors < MAX_RECEIVE_ERRORS && (self.is_listened_to() || is_about_a_peer(&error)) =>
                {
                    errors += 1;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

fn is_about_the_source(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, InvalidInput, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | InvalidInput | NetworkUnreachable)
}

/// Returns the system's error code if the error concerns only this pair of addresses.
fn obstacle(error: &io::Error) -> Option<i32> {
    error.raw_os_error().filter(|_| is_about_the_way(error))
}

/// Returns whether the error concerns only this pair of addresses: the interface is down or gone, there is no
/// route, or none for the source address, or a filter blocks the packet.
fn is_about_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, HostUnreachable, InvalidInput, NetworkDown, NetworkUnreachable, PermissionDenied,
    };
    let device_gone = error.raw_os_error() == Some(ENODEV);
    let kind = error.kind();
    let unreachable = matches!(kind, HostUnreachable | NetworkUnreachable | NetworkDown);
    device_gone || unreachable || matches!(kind, AddrNotAvailable | InvalidInput | PermissionDenied)
}

fn is_about_segmentation(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(EIO)
}

fn is_about_a_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
