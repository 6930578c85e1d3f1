//! State of a connection's paths outside of the core.

use tokio::sync::broadcast;

use super::events::PathEvent;
use super::lease::Leases;
use super::roaming::Roaming;

/// State of a connection's paths outside of the core.
#[derive(Debug, Default)]
pub(crate) struct PathsState {
    /// Sender of path events, if the application has subscribed.
    pub(crate) events: Option<broadcast::Sender<PathEvent>>,
    /// `true` if a PING must be sent on a path to find out whether it works.
    pub(crate) asks: bool,
    /// `true` while the core knows that sockets of some paths are full.
    pub(crate) has_socket_blocked: bool,
    /// Leases of sockets that were bound for paths.
    pub(crate) leases: Leases,
    /// State of a client's connection that follows the routing table.
    pub(crate) roaming: Option<Box<Roaming>>,
}
