//! Local end of a path: an address of this host, and optionally an interface.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Local address of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LocalAddress {
    /// An address of this host.
    pub ip: IpAddr,
    /// The port. With 0 the path gets a new socket on a port that the system chooses.
    pub port: u16,
    /// Interface through which packets are sent, regardless of the routing table, if the system supports this
    /// (Linux). Binding the address fails if the interface does not exist. If the system does not permit the
    /// choice (Linux before 5.7), the routing table decides by the source address, unless `strict` is set.
    pub interface: Option<String>,
    /// `true` if binding the address fails when the system does not permit the choice of the interface.
    pub strict: bool,
}

impl From<SocketAddr> for LocalAddress {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port(), interface: None, strict: false }
    }
}

impl From<IpAddr> for LocalAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, port: 0, interface: None, strict: false }
    }
}

impl LocalAddress {
    /// Sets the interface through which packets are sent.
    #[must_use]
    pub fn on_interface(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    /// Makes binding the address fail if packets cannot be restricted to the interface.
    #[must_use]
    pub fn strictly(mut self) -> Self {
        self.strict = true;
        self
    }

    pub(crate) fn bind(&self) -> io::Result<UdpSocket> {
        let address = SocketAddr::new(self.ip, self.port);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        self.bind_socket(&socket, self.port)?;
        Ok(socket.into())
    }

    /// Binds a socket of any protocol to the address and the interface.
    pub(crate) fn bind_socket(&self, socket: &Socket, port: u16) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(interface) = &self.interface {
            match socket.bind_device(Some(interface.as_bytes())) {
                // Most hosts then choose the interface by the source address.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.strict => {}
                bound => bound?,
            }
        }
        socket.bind(&SocketAddr::new(self.ip, port).into())
    }
}

/// Returns the wildcard address of the family of `remote`, for a client to bind to.
pub fn unspecified_for(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => SocketAddr::new([0, 0, 0, 0].into(), 0),
        SocketAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
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
        let missing = LocalAddress::from(IpAddr::from([127, 0, 0, 1])).on_interface("no-such-one");
        assert!(missing.bind().is_err(), "another interface is not what was asked for");
    }
}
