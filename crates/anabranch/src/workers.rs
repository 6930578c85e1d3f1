//! Workers of an endpoint: sockets that share an address, and datagrams that one worker hands over to another.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use anabranch_transport::{Datagram, MAX_WORKERS, StoredDatagram};
use socket2::{Domain, Protocol, Socket, Type};

/// Maximum memory of the datagrams that were handed over to a worker and that it has not taken yet, in bytes. Further ones are
/// dropped, as a full socket would.
pub(crate) const MAX_HANDED_OVER: usize = 1 << 20;

/// Datagrams for a worker's connections that other workers have received.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    datagrams: Vec<StoredDatagram>,
    bytes: usize,
    is_closed: bool,
}

impl Mailbox {
    /// Stores a copy of a datagram, if there is room and the mailbox is open. Returns whether it was stored.
    pub(crate) fn push(&mut self, datagram: &Datagram<'_>) -> bool {
        let cost = datagram.payload.len() + size_of::<StoredDatagram>();
        let fits = self.bytes + cost <= MAX_HANDED_OVER;
        let is_stored = fits && !self.is_closed;
        if is_stored {
            self.bytes += cost;
            self.datagrams.push(StoredDatagram::copy(datagram));
        }
        is_stored
    }

    /// Drops all datagrams, and stores none from now on.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// Removes all datagrams.
    pub(crate) fn take(&mut self) -> Vec<StoredDatagram> {
        self.bytes = 0;
        std::mem::take(&mut self.datagrams)
    }
}

/// Binds a socket for each of `count` workers of an endpoint to `address`. With port 0 the system chooses one port for all. On
/// Linux, the sockets have a filter by which a packet reaches the worker that its connection ID names, whatever address it comes
/// from. Of other systems, some choose a socket by the addresses, and others give all packets to one socket; workers then hand
/// packets over. Clients are spread evenly over 2, 4, 8, 16 or 32 workers.
///
/// # Errors
/// Fails if the address cannot be bound, or is in use; if there are no workers, or more than [`MAX_WORKERS`].
pub fn bind_workers(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    if !(1..=MAX_WORKERS).contains(&count) {
        let reason = format!("an endpoint has 1 to {MAX_WORKERS} workers");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if count == 1 {
        return Ok(vec![UdpSocket::bind(address)?]);
    }
    // The first socket shares its address only once it has it: otherwise, the sockets of another process would become workers.
    let first = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    first.bind(&address.into())?;
    share(&first)?;
    let mut sockets = vec![UdpSocket::from(first)];
    let address = sockets[0].local_addr()?;
    for _ in 1..count {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        share(&socket)?;
        socket.bind(&address.into())?;
        sockets.push(socket.into());
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    steering::attach(&sockets)?;
    Ok(sockets)
}

/// Lets further sockets of this user have the address of this one.
#[cfg_attr(
    not(unix),
    expect(unused_variables, clippy::unnecessary_wraps, reason = "there is no such option")
)]
fn share(socket: &Socket) -> io::Result<()> {
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod steering {
    //! Filter of the kernel that chooses among sockets of one address by the connection ID.

    use std::io;
    use std::net::UdpSocket;

    use anabranch_transport::WORKER_BITS;
    use nix::libc::{
        BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MOD, BPF_RET, sock_filter,
        sock_fprog,
    };
    use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};

    /// Result "the accumulator" of a filter (`BPF_A` in the kernel's `linux/filter.h`).
    const BPF_A: u32 = 0x10;
    /// Bit of the first byte that long headers have (RFC 8999 §5).
    const LONG: u32 = 0x80;
    /// Offsets of the Destination Connection ID (RFC 8999 §5): after the first byte in short headers; after version and length, too,
    /// in long headers.
    const SHORT_DCID: u32 = 1;
    const LONG_DCID: u32 = 6;

    /// Makes the kernel choose, for each received packet, the socket of the worker that the packet's connection ID names. Connection
    /// IDs that clients choose name workers at random.
    pub(super) fn attach(sockets: &[UdpSocket]) -> io::Result<()> {
        let Some(socket) = sockets.first() else { return Ok(()) };
        let step = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
        // A packet that is too short to have the byte that is read gets the number 0.
        let mut steps = [
            step(BPF_LD | BPF_B | BPF_ABS, 0, 0, 0),
            step(BPF_JMP | BPF_JSET | BPF_K, 2, 0, LONG),
            step(BPF_LD | BPF_B | BPF_ABS, 0, 0, SHORT_DCID),
            step(BPF_JMP, 0, 0, 1),
            step(BPF_LD | BPF_B | BPF_ABS, 0, 0, LONG_DCID),
            step(BPF_ALU | BPF_AND | BPF_K, 0, 0, u32::from(WORKER_BITS)),
            step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, sockets.len() as u32),
            step(BPF_RET | BPF_A, 0, 0, 0),
        ];
        let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        Ok(setsockopt(socket, AttachReusePortCbpf, &program)?)
    }
}

#[cfg(test)]
mod tests;
