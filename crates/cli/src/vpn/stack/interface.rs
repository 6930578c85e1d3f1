//! An interface of the user-space stack that has all IP addresses.

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};

use super::link::Link;

/// An interface that accepts packets to all addresses, and its link.
pub(super) struct Host {
    pub(super) interface: Interface,
    pub(super) link: Link,
}

impl Host {
    pub(super) fn new(mtu: usize) -> Self {
        let mut link = Link::new(mtu);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random();
        let mut interface = Interface::new(config, &mut link, Instant::now());
        // With `set_any_ip`, the interface accepts packets to every destination whose gateway is one of its
        // own addresses.
        let (v4, v6) = (Ipv4Address::new(0, 0, 0, 1), Ipv6Address::new(0, 0, 0, 0, 0, 0, 0, 1));
        interface.update_ip_addrs(|addresses| {
            // There is room for two addresses, and for two routes.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(v4), 0));
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv6(v6), 0));
        });
        let _ = interface.routes_mut().add_default_ipv4_route(v4);
        let _ = interface.routes_mut().add_default_ipv6_route(v6);
        interface.set_any_ip(true);
        Self { interface, link }
    }

    /// Handles received packets and expired timers, and queues packets to send.
    pub(super) fn poll(&mut self, sockets: &mut SocketSet<'_>) {
        self.interface.poll(Instant::now(), &mut self.link, sockets);
    }
}

/// Returns a random number for initial sequence numbers (RFC 6528).
fn random() -> u64 {
    let mut bytes = [0; 8];
    // If the system has no randomness, only programs of this host can guess sequence numbers.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
