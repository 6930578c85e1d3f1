//! Interfaces of this host.

use std::net::IpAddr;

/// Present state of an interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Addresses of the interface; none while it is down.
    pub(super) addresses: Vec<IpAddr>,
    /// Addresses of the interface while it is down, from which nothing can be sent; none while it is up.
    pub(super) idle_addresses: Vec<IpAddr>,
    pub(super) is_up: bool,
}
