//! Interfaces of this host, and notification of changes.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::interface::Interface;

/// Interval at which interfaces are checked. On systems that do not report changes, no other check is made.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time for which further reports are collected after the first report of a change, because changes come in
/// bursts.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BURST: Duration = Duration::from_millis(20);

/// Returns the present interfaces. Interfaces that are down have no usable addresses.
pub(super) async fn snapshot() -> Vec<Interface> {
    let read = tokio::task::spawn_blocking(netdev::get_interfaces).await.unwrap_or_default();
    let interfaces = read.into_iter().map(|interface| {
        let addresses = interface.ipv4_addrs().into_iter().map(IpAddr::V4);
        let addresses = addresses.chain(interface.ipv6_addrs().into_iter().map(IpAddr::V6));
        // The interface is administratively up and has a carrier.
        let is_up = interface.is_up() && interface.is_running();
        let (addresses, idle_addresses) = match is_up {
            true => (addresses.collect(), Vec::new()),
            false => (Vec::new(), addresses.collect()),
        };
        Interface { name: interface.name, addresses, idle_addresses, is_up }
    });
    interfaces.collect()
}

/// Watch for changes of the interfaces.
pub(super) struct InterfaceChanges {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    netlink: Option<netlink_sys::TokioSocket>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl InterfaceChanges {
    pub(super) fn new() -> Self {
        Self { netlink: listen(ADDRESSES).ok() }
    }

    /// Creates a watch that includes routes.
    pub(super) fn of_routes() -> Self {
        Self { netlink: listen(ADDRESSES | ROUTES).ok() }
    }

    /// Returns when something may have changed.
    pub(super) async fn changed(&mut self) {
        use netlink_sys::AsyncSocketExt as _;

        let Some(netlink) = &mut self.netlink else { return tokio::time::sleep(INTERVAL).await };
        // Any message leads to a new reading of all interfaces. An error means that messages were lost, so it
        // counts as a change, too.
        let heard = tokio::time::timeout(INTERVAL, netlink.recv_from_full()).await;
        if heard.is_ok() {
            let burst = tokio::time::Instant::now() + BURST;
            while let Ok(Ok(_)) = tokio::time::timeout_at(burst, netlink.recv_from_full()).await {}
        }
    }
}

/// Groups of links and addresses in rtnetlink(7): `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ADDRESSES: u32 = 0x1 | 0x10 | 0x100;
/// Groups of routes in rtnetlink(7): `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ROUTES: u32 = 0x40 | 0x400;

/// Opens a netlink socket that reports changes.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn listen(groups: u32) -> io::Result<netlink_sys::TokioSocket> {
    use netlink_sys::{AsyncSocket as _, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};

    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
    Ok(socket)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl InterfaceChanges {
    pub(super) fn new() -> Self {
        Self {}
    }

    /// Creates a watch that includes routes.
    pub(super) fn of_routes() -> Self {
        Self {}
    }

    /// Returns when something may have changed.
    pub(super) async fn changed(&mut self) {
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_loopback_interface_is_there() {
        let interfaces = snapshot().await;
        let loopback = |interface: &Interface| interface.addresses.contains(&[127, 0, 0, 1].into());
        assert!(interfaces.iter().any(loopback), "{interfaces:?}");
    }
}
