//! NAT in a thread: it forwards datagrams between one client and one server, and can change the address that
//! the server sees. It forwards ECN marks and counts them.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};

use crate::socket::{any_like, bind, loopback_like};

/// Number of datagrams in one direction.
#[derive(Default)]
pub struct Direction {
    /// Number of all datagrams.
    pub datagrams: AtomicU64,
    /// Number of datagrams marked ECT(0), ECT(1) or CE.
    pub marked: AtomicU64,
}

/// Traffic of the relay, and requests to it.
#[derive(Default)]
pub struct Watched {
    /// Datagrams from the client to the server.
    pub to_server: Direction,
    /// Datagrams from the server to the client.
    pub to_client: Direction,
    rebind: AtomicBool,
    rebound: AtomicU64,
}

/// Running relay. Its thread ends with the process.
pub struct Relay {
    /// Address to which the client must connect.
    pub address: SocketAddr,
    /// Counters of the relay.
    pub watched: Arc<Watched>,
}

/// ECN field of the IPv4 type of service and of the IPv6 traffic class (RFC 3168 §5).
const ECN_MASK: u8 = 0b11;

impl Relay {
    /// Starts a relay to `server`.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let front = ecn_socket(loopback_like(server))?;
        let address = front.local_addr()?;
        let watched = Arc::new(Watched::default());
        let mut back = ecn_socket(any_like(server))?;
        let seen = Arc::clone(&watched);
        thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 65_536];
            loop {
                if seen.rebind.swap(false, Relaxed)
                    && let Ok(fresh) = ecn_socket(any_like(server))
                {
                    back = fresh;
                    seen.rebound.fetch_add(1, Relaxed);
                }
                let mut ready = [
                    PollFd::new(front.as_fd(), PollFlags::POLLIN),
                    PollFd::new(back.as_fd(), PollFlags::POLLIN),
                ];
                // The timeout limits the delay of a rebinding on an idle path.
                let _ = poll(&mut ready, PollTimeout::from(10u8));
                let [from_client, from_server] = ready.map(|fd| fd.any() == Some(true));
                if from_client && let Some((source, n, ecn)) = receive(&front, &mut buffer) {
                    client = Some(source);
                    forward(&back, &buffer[..n], server, ecn, &seen.to_server);
                }
                if from_server
                    && let Some((_, n, ecn)) = receive(&back, &mut buffer)
                    && let Some(client) = client
                {
                    forward(&front, &buffer[..n], client, ecn, &seen.to_client);
                }
            }
        });
        Ok(Self { address, watched })
    }

    /// Changes the client's port, as seen by the server, from the next datagram on.
    pub fn rebind(&self) {
        self.watched.rebind.store(true, Relaxed);
    }

    /// Returns the number of address changes.
    pub fn rebound(&self) -> u64 {
        self.watched.rebound.load(Relaxed)
    }
}

/// Creates a socket that reports the ECN field of received datagrams.
fn ecn_socket(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = bind(local)?;
    match local {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::IpRecvTos, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?,
    }
    Ok(socket)
}

/// Receives the next datagram. Returns its source, its length and its ECN field.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(SocketAddr, usize, u8)> {
    let mut control = nix::cmsg_space!(i32, i32);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())
            .ok()?;
    let source = message.address?;
    let source = match (source.as_sockaddr_in(), source.as_sockaddr_in6()) {
        (Some(v4), _) => SocketAddr::V4((*v4).into()),
        (_, Some(v6)) => SocketAddr::V6((*v6).into()),
        _ => return None,
    };
    let ecn = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos & ECN_MASK),
        ControlMessageOwned::Ipv6TClass(class) => Some(class as u8 & ECN_MASK),
        _ => None,
    });
    Some((source, message.bytes, ecn.unwrap_or(0)))
}

fn forward(socket: &UdpSocket, datagram: &[u8], to: SocketAddr, ecn: u8, count: &Direction) {
    count.datagrams.fetch_add(1, Relaxed);
    count.marked.fetch_add(u64::from(ecn != 0), Relaxed);
    let class = i32::from(ecn);
    let control = match to {
        SocketAddr::V4(_) => ControlMessage::Ipv4Tos(&ecn),
        SocketAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
    };
    // A full or closed socket loses the datagram, as a network would.
    let _ = sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(datagram)],
        &[control],
        MsgFlags::empty(),
        Some(&SockaddrStorage::from(to)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_forwards_marks_and_changes_its_port() {
        let server = ecn_socket(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let relay = Relay::start(server.local_addr().unwrap()).unwrap();
        let client = ecn_socket(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut buffer = [0; 64];
        let mut ports = Vec::new();
        for ecn in [0, 2] {
            forward(&client, b"ping", relay.address, ecn, &Direction::default());
            let (source, n, seen) = receive(&server, &mut buffer).unwrap();
            assert_eq!((&buffer[..n], seen), (&b"ping"[..], ecn));
            ports.push(source.port());
            forward(&server, b"pong!", source, ecn, &Direction::default());
            let (source, n, seen) = receive(&client, &mut buffer).unwrap();
            assert_eq!((source, &buffer[..n], seen), (relay.address, &b"pong!"[..], ecn));
            relay.rebind();
            while relay.rebound() < ports.len() as u64 {
                thread::yield_now();
            }
        }
        assert_ne!(ports[0], ports[1]);
        assert_eq!(relay.watched.to_server.datagrams.load(Relaxed), 2);
        assert_eq!(relay.watched.to_client.marked.load(Relaxed), 1);
    }
}
