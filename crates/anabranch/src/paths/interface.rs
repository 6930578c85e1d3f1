//! Interfaces of this host.

use std::net::IpAddr;

/// An interface of this host as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Its addresses; none while it is down.
    pub(super) addresses: Vec<IpAddr>,
    /// Its addresses while it is down, which nothing can be sent from.
    pub(super) idle_addresses: Vec<IpAddr>,
    pub(super) is_up: bool,
}
