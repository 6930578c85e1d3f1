//! The sockets that a server listens on: bound here, or passed by systemd.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use anabranch::bind_workers;
use nix::libc;

use super::systemd;
use crate::exit::{Exit, Failure, Result};
use crate::listen::{HostPort, PORT};
use crate::options::cannot_listen;

/// Maximum number of attempts to find a free UDP port whose TCP port is free too.
const MAX_PORT_CHOICES: usize = 32;

/// Bound sockets: UDP for QUIC, and TCP for TLS.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Sockets of each address: one for each worker.
    pub(crate) udp: Vec<Vec<UdpSocket>>,
    pub(crate) tcp: Vec<TcpListener>,
}

impl Sockets {
    /// Opens the sockets for the addresses in `places`, with `workers` UDP sockets each. Without addresses,
    /// takes those that systemd passes; if there are none either, binds every address of the host.
    pub(crate) async fn open(places: &[HostPort], tcp: bool, workers: usize) -> Result<Self> {
        let (udp, tcp_listeners) = systemd::sockets()?;
        let udp = by_address(udp).map_err(|error| Failure::io("cannot use a UDP socket", &error))?;
        let mut sockets = Self { udp, tcp: tcp_listeners };
        if !tcp {
            sockets.tcp.clear();
        }
        let passed = !sockets.udp.is_empty() || !sockets.tcp.is_empty();
        if passed && sockets.udp.is_empty() {
            return Err(Failure::new(Exit::Usage, "systemd passes no UDP socket")
                .or("add ListenDatagram= to the socket unit"));
        }
        for place in places {
            match &place.resolve().await?[..] {
                [] => sockets.bind_everywhere(place.port, tcp, workers)?,
                addresses => sockets.bind_any(addresses, tcp, workers)?,
            }
        }
        if places.is_empty() && !passed {
            sockets.bind_everywhere(PORT, tcp, workers)?;
        }
        Ok(sockets)
    }

    /// Binds those of a name's addresses that exist on this host: `localhost` may resolve to `::1` on a host
    /// without IPv6.
    fn bind_any(&mut self, addresses: &[SocketAddr], tcp: bool, workers: usize) -> Result {
        let mut missing = None;
        let mut bound = false;
        for address in addresses {
            match self.bind(*address, tcp, workers) {
                Ok(()) => bound = true,
                Err(error) if is_missing(&error) => {
                    missing.get_or_insert(cannot_listen(*address, &error));
                }
                Err(error) => return Err(cannot_listen(*address, &error)),
            }
        }
        missing.filter(|_| !bound).map_or(Ok(()), Err)
    }

    /// Returns the ports of QUIC.
    pub(crate) fn udp_ports(&self) -> Vec<u16> {
        self.udp.iter().filter_map(|sockets| Some(sockets.first()?.local_addr().ok()?.port())).collect()
    }

    /// Binds every address of the host, or only IPv4 addresses on a host without IPv6.
    fn bind_everywhere(&mut self, port: u16, tcp: bool, workers: usize) -> Result {
        let (v6, v4) = ((Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into());
        match self.bind(v6, tcp, workers) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                self.bind(v4, tcp, workers).map_err(|error| cannot_listen(v4, &error))
            }
            bound => bound.map_err(|error| cannot_listen(v6, &error)),
        }
    }

    fn bind(&mut self, address: SocketAddr, tcp: bool, workers: usize) -> io::Result<()> {
        let choices = if address.port() == 0 { MAX_PORT_CHOICES } else { 1 };
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..choices {
            let udp = bind_workers(address, workers)?;
            if tcp {
                // TCP uses the same port as UDP, even if the system chose it.
                match TcpListener::bind(udp[0].local_addr()?) {
                    Ok(listener) => self.tcp.push(listener),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        taken = error;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            self.udp.push(udp);
            return Ok(());
        }
        Err(taken)
    }
}

/// Groups sockets by their addresses: systemd passes several for one address if its unit says `ReusePort=yes`.
fn by_address(sockets: Vec<UdpSocket>) -> io::Result<Vec<Vec<UdpSocket>>> {
    let mut groups: Vec<(SocketAddr, Vec<UdpSocket>)> = Vec::new();
    for socket in sockets {
        let address = socket.local_addr()?;
        match groups.iter_mut().find(|(known, _)| *known == address) {
            Some((_, group)) => group.push(socket),
            None => groups.push((address, vec![socket])),
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Returns whether the error means that this host does not have the address.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

pub(crate) fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| cannot_listen(address, &error))
}

/// Converts a listener for the async runtime.
pub(crate) fn listener(listener: TcpListener) -> Result<tokio::net::TcpListener> {
    let made = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    made.map_err(|error| Failure::io("cannot use a TCP socket", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_have_the_same_port() {
        for workers in [1, 3] {
            let mut sockets = Sockets::default();
            sockets.bind((Ipv4Addr::LOCALHOST, 0).into(), true, workers).unwrap();
            assert_eq!(sockets.udp_ports(), [sockets.tcp[0].local_addr().unwrap().port()]);
            assert_eq!(sockets.udp[0].len(), workers);
            let taken = sockets.tcp[0].local_addr().unwrap();
            assert_eq!(sockets.bind(taken, true, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn sockets_of_one_address_are_workers() {
        let localhost = (Ipv4Addr::LOCALHOST, 0).into();
        let (one, other) = (bind_workers(localhost, 2).unwrap(), bind_workers(localhost, 1).unwrap());
        let passed: Vec<_> = one.into_iter().zip(other.into_iter().map(Some).chain([None])).collect();
        let passed = passed.into_iter().flat_map(|(one, other)| std::iter::once(one).chain(other)).collect();
        let lens: Vec<_> = by_address(passed).unwrap().iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 1]);
    }
}
