//! State of paths that the core does not keep.

use tokio::sync::broadcast;

use super::events::PathEvent;
use super::lease::Leases;
use super::roaming::Roaming;

/// State of a connection's paths beside the core's.
#[derive(Debug, Default)]
pub(crate) struct PathsState {
    /// Who listens to what happens to paths.
    pub(crate) events: Option<broadcast::Sender<PathEvent>>,
    /// Whether a path was asked for a sign of life.
    pub(crate) asks: bool,
    /// Whether the core was told that sockets of some of its paths are full.
    pub(crate) has_held: bool,
    /// Sockets that were bound for paths.
    pub(crate) leases: Leases,
    /// For a client's connection that follows the routing table.
    pub(crate) roaming: Option<Box<Roaming>>,
}
