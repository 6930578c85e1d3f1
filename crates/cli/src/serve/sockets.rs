//! The sockets that a server listens on: bound here, or passed by systemd.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use super::systemd;
use crate::exit::{Exit, Failure, Result};
use crate::options::cannot_listen;

/// Where to listen unless something else is said.
const PORT: u16 = 4433;
/// How often the system may choose a UDP port whose TCP port is taken.
const MAX_PORT_CHOICES: usize = 32;

/// Sockets that are bound, UDP for QUIC and TCP for TLS.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) udp: Vec<UdpSocket>,
    pub(super) tcp: Vec<TcpListener>,
}

impl Sockets {
    /// Without addresses, those that systemd passes; without these either, every address of the host.
    pub(super) fn open(addresses: &[SocketAddr], tcp: bool) -> Result<Self> {
        let mut sockets = systemd::sockets()?;
        if !tcp {
            sockets.tcp.clear();
        }
        let passed = !sockets.udp.is_empty() || !sockets.tcp.is_empty();
        if passed && sockets.udp.is_empty() {
            return Err(Failure::new(Exit::Usage, "systemd passes no UDP socket")
                .or("add ListenDatagram= to the socket unit"));
        }
        for address in addresses {
            sockets.bind(*address, tcp).map_err(|error| cannot_listen(*address, &error))?;
        }
        if addresses.is_empty() && !passed {
            sockets.bind_everywhere(tcp)?;
        }
        Ok(sockets)
    }

    /// The ports where QUIC is spoken.
    pub(super) fn udp_ports(&self) -> Vec<u16> {
        self.udp.iter().filter_map(|socket| Some(socket.local_addr().ok()?.port())).collect()
    }

    /// A host without IPv6 has IPv4.
    fn bind_everywhere(&mut self, tcp: bool) -> Result {
        let (v6, v4) = ((Ipv6Addr::UNSPECIFIED, PORT).into(), (Ipv4Addr::UNSPECIFIED, PORT).into());
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
                // The same port, whoever chose it.
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

pub(super) fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| cannot_listen(address, &error))
}

/// A listener of the runtime.
pub(super) fn listener(listener: TcpListener) -> Result<tokio::net::TcpListener> {
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
