//! The interfaces of this host, and word of their changes.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::interface::Interface;

/// Interval at which interfaces are checked where the system does not report changes, and in any case.
const INTERVAL: Duration = Duration::from_secs(5);
/// Changes come in bursts: this long after the first one they are looked at together.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BURST: Duration = Duration::from_millis(20);

/// Returns the interfaces as they are now; those that are down come without addresses.
pub(super) async fn snapshot() -> Vec<Interface> {
    let read = tokio::task::spawn_blocking(netdev::get_interfaces).await.unwrap_or_default();
    let interfaces = read.into_iter().map(|interface| {
        let addresses = interface.ipv4_addrs().into_iter().map(IpAddr::V4);
        let addresses = addresses.chain(interface.ipv6_addrs().into_iter().map(IpAddr::V6));
        // Up as it was told to be, and with a carrier.
        let is_up = interface.is_up() && interface.is_running();
        let (addresses, idle_addresses) = match is_up {
            true => (addresses.collect(), Vec::new()),
            false => (Vec::new(), addresses.collect()),
        };
        Interface { name: interface.name, addresses, idle_addresses, is_up }
    });
    interfaces.collect()
}

/// Waits for changes of the interfaces.
pub(super) struct InterfaceChanges {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    netlink: Option<netlink_sys::TokioSocket>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl InterfaceChanges {
    pub(super) fn new() -> Self {
        Self { netlink: listen(ADDRESSES).ok() }
    }

    /// Creates a watch that covers routes as well.
    pub(super) fn of_routes() -> Self {
        Self { netlink: listen(ADDRESSES | ROUTES).ok() }
    }

    /// Returns once something may have changed.
    pub(super) async fn changed(&mut self) {
        use netlink_sys::AsyncSocketExt as _;

        let Some(netlink) = &mut self.netlink else { return tokio::time::sleep(INTERVAL).await };
        // What has changed is read anew as a whole; an error says that messages were lost, which is a change
        // as well.
        let heard = tokio::time::timeout(INTERVAL, netlink.recv_from_full()).await;
        if heard.is_ok() {
            let burst = tokio::time::Instant::now() + BURST;
            while let Ok(Ok(_)) = tokio::time::timeout_at(burst, netlink.recv_from_full()).await {}
        }
    }
}

/// Links and addresses, as rtnetlink(7) groups them: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`,
/// `RTMGRP_IPV6_IFADDR`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ADDRESSES: u32 = 0x1 | 0x10 | 0x100;
/// `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`.
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

    /// Creates a watch that covers routes as well.
    pub(super) fn of_routes() -> Self {
        Self {}
    }

    /// Returns once something may have changed.
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
