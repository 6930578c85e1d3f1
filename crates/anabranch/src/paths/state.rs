//! State of paths that the core does not keep.

use tokio::sync::broadcast;

use super::events::PathEvent;
use super::lease::Leases;
use super::roaming::Roaming;

/// State of a connection's paths beside the core's.
#[derive(Debug, Default)]
pub(crate) struct PathsState {
    /// Sender of the path events that the application subscribes to.
    pub(crate) events: Option<broadcast::Sender<PathEvent>>,
    /// Set when a path was sent a PING to find out whether it works.
    pub(crate) asks: bool,
    /// `true` while the core knows that sockets of some paths are full.
    pub(crate) has_socket_blocked: bool,
    /// Sockets that were bound for paths.
    pub(crate) leases: Leases,
    /// For a client's connection that follows the routing table.
    pub(crate) roaming: Option<Box<Roaming>>,
}
