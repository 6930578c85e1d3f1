//! Where a path begins: an address of this host, and perhaps an interface.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Type};

/// This end's address of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// An address of this host.
    pub ip: IpAddr,
    /// The port. With 0 the path gets a socket of its own on a port that the system chooses.
    pub port: u16,
    /// Packets leave through this interface, whatever the routes say, as far as the system supports that and allows it.
    pub interface: Option<String>,
}

impl From<SocketAddr> for LocalAddress {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port(), interface: None }
    }
}

impl From<IpAddr> for LocalAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, port: 0, interface: None }
    }
}

impl LocalAddress {
    /// Packets are to leave through `interface`.
    #[must_use]
    pub fn on_interface(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    pub(super) fn bind(&self) -> io::Result<UdpSocket> {
        let address = SocketAddr::new(self.ip, self.port);
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(interface) = &self.interface {
            // Without the right to do so the source address decides, which most hosts' routes look at.
            let _ = socket.bind_device(Some(interface.as_bytes()));
        }
        socket.bind(&address.into())?;
        Ok(socket.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_an_interface() {
        let local = LocalAddress::from(IpAddr::from([127, 0, 0, 1])).on_interface("lo");
        let socket = local.bind().unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), local.ip);
        let taken = LocalAddress::from(socket.local_addr().unwrap());
        assert_eq!(taken.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // One that does not exist is as good as none: the address decides.
        assert!(LocalAddress::from(IpAddr::from([127, 0, 0, 1])).on_interface("no-such-one").bind().is_ok());
    }
}
