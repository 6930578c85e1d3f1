//! The sockets that a server listens on: bound here, or passed by systemd.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

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
    pub(crate) udp: Vec<UdpSocket>,
    pub(crate) tcp: Vec<TcpListener>,
}

impl Sockets {
    /// Opens the sockets for the addresses in `places`. Without addresses, takes those that systemd passes;
    /// if there are none either, binds every address of the host.
    pub(crate) async fn open(places: &[HostPort], tcp: bool) -> Result<Self> {
        let (udp, tcp_listeners) = systemd::sockets()?;
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
                [] => sockets.bind_everywhere(place.port, tcp)?,
                addresses => sockets.bind_any(addresses, tcp)?,
            }
        }
        if places.is_empty() && !passed {
            sockets.bind_everywhere(PORT, tcp)?;
        }
        Ok(sockets)
    }

    /// Binds those of a name's addresses that exist on this host: `localhost` may resolve to `::1` on a host
    /// without IPv6.
    fn bind_any(&mut self, addresses: &[SocketAddr], tcp: bool) -> Result {
        let mut missing = None;
        let mut bound = false;
        for address in addresses {
            match self.bind(*address, tcp) {
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
        self.udp.iter().filter_map(|socket| Some(socket.local_addr().ok()?.port())).collect()
    }

    /// Binds every address of the host, or only IPv4 addresses on a host without IPv6.
    fn bind_everywhere(&mut self, port: u16, tcp: bool) -> Result {
        let (v6, v4) = ((Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into());
        match self.bind(v6, tcp) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                self.bind(v4, tcp).map_err(|error| cannot_listen(v4, &error))
            }
            bound => bound.map_err(|error| cannot_listen(v6, &error)),
        }
    }

    fn bind(&mut self, address: SocketAddr, tcp: bool) -> io::Result<()> {
        let choices = if address.port() == 0 { MAX_PORT_CHOICES } else { 1 };
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..choices {
            let udp = UdpSocket::bind(address)?;
            if tcp {
                // TCP uses the same port as UDP, even if the system chose it.
                match TcpListener::bind(udp.local_addr()?) {
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
        let mut sockets = Sockets::default();
        sockets.bind((Ipv4Addr::LOCALHOST, 0).into(), true).unwrap();
        assert_eq!(sockets.udp_ports(), [sockets.tcp[0].local_addr().unwrap().port()]);
        let taken = sockets.tcp[0].local_addr().unwrap();
        assert_eq!(sockets.bind(taken, true).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
