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
}

impl Mailbox {
    /// Stores a copy of a datagram, if there is room. Returns whether it was stored.
    pub(crate) fn push(&mut self, datagram: &Datagram<'_>) -> bool {
        let cost = datagram.payload.len() + size_of::<StoredDatagram>();
        let fits = self.bytes + cost <= MAX_HANDED_OVER;
        if fits {
            self.bytes += cost;
            self.datagrams.push(StoredDatagram::copy(datagram));
        }
        fits
    }

    /// Removes all datagrams.
    pub(crate) fn take(&mut self) -> Vec<StoredDatagram> {
        self.bytes = 0;
        std::mem::take(&mut self.datagrams)
    }
}

/// Binds a socket for each of `count` workers of an endpoint to `address`. With port 0 the system chooses one port for all. On
/// Linux, the sockets have a filter by which a packet reaches the worker that its connection ID names, whatever address it comes
/// from. Elsewhere, the system chooses by the addresses, and workers hand packets over.
///
/// # Errors
/// Fails if the address cannot be bound, or if there are no workers, or more than [`MAX_WORKERS`].
pub fn bind_workers(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    if !(1..=MAX_WORKERS).contains(&count) {
        let reason = format!("an endpoint has 1 to {MAX_WORKERS} workers");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if count == 1 {
        return Ok(vec![UdpSocket::bind(address)?]);
    }
    let first = bind_shared(address)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind_shared(address)?);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    steering::attach(&sockets)?;
    Ok(sockets)
}

/// Binds a socket to an address that further sockets of this user may share.
fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
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
mod tests {
    use std::time::Duration;

    use anabranch_transport::FourTuple;

    use super::*;

    const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn packets_reach_the_worker_that_they_name() {
        for count in [2, 3, 4, 32] {
            let workers = bind_workers(ANY.into(), count).unwrap();
            let address = workers[0].local_addr().unwrap();
            for name in 0..=255_u8 {
                let worker = usize::from(name & 0x1f) % count;
                workers[worker].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let client = UdpSocket::bind(SocketAddr::from(ANY)).unwrap();
                for packet in [vec![0x40, name, 9, 9], vec![0xc0, 0, 0, 0, 1, 8, name, 9, 9]] {
                    client.send_to(&packet, address).unwrap();
                    let mut received = [0; 16];
                    let (len, from) = workers[worker].recv_from(&mut received).unwrap();
                    assert_eq!((&received[..len], from), (&packet[..], client.local_addr().unwrap()));
                }
            }
            // Packets without a connection ID do not disturb.
            for packet in [vec![], vec![0x40], vec![0xc0, 0, 0, 0, 1]] {
                UdpSocket::bind(SocketAddr::from(ANY)).unwrap().send_to(&packet, address).unwrap();
            }
        }
    }

    #[test]
    fn the_number_of_workers_is_checked() {
        for count in [0, MAX_WORKERS + 1] {
            assert_eq!(bind_workers(ANY.into(), count).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let alone = bind_workers(ANY.into(), 1).unwrap();
        let taken = bind_workers(alone[0].local_addr().unwrap(), 2).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_mailbox_is_bounded() {
        let mut mailbox = Mailbox::default();
        let tuple = FourTuple { local: ANY.into(), remote: ANY.into() };
        let mut stored = 0;
        let mut bytes = [7; 1_200];
        while mailbox.push(&Datagram { tuple, ecn: None, payload: &mut bytes }) {
            stored += 1;
            assert!(stored * bytes.len() <= MAX_HANDED_OVER);
        }
        assert!(stored * (bytes.len() + 200) > MAX_HANDED_OVER);
        assert_eq!(mailbox.take().len(), stored);
        assert!(mailbox.push(&Datagram { tuple, ecn: None, payload: &mut bytes }));
    }
}
