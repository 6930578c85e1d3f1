//! UDP sockets and CPU pinning, with the same tuning for every stack.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

/// Requested size of the kernel buffer in each direction, in bytes. quic-go requests the same by default.
pub const KERNEL_BUFFER: usize = 7 << 20;

/// Binds a UDP socket with large kernel buffers. A privileged process exceeds the system's limit, any other
/// is limited by it.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &KERNEL_BUFFER)
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &KERNEL_BUFFER));
    let _ = setsockopt(&socket, sockopt::SndBuf, &KERNEL_BUFFER);
    Ok(socket)
}

/// Returns the unspecified address with any port, in the family of `peer`.
pub fn any_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Returns the loopback address with any port, in the family of `peer`.
pub fn loopback_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// Returns the loopback address if `peer` is on it, and otherwise the unspecified address, with any port. For
/// stacks that need to know their local address.
pub fn loopback_or_any(peer: SocketAddr) -> SocketAddr {
    if peer.ip().is_loopback() { loopback_like(peer) } else { any_like(peer) }
}

/// Pins the calling thread, and threads that it will start, to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}
