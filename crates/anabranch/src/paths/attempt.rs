//! Attempts to open a path.

use std::net::{IpAddr, SocketAddr};

/// A path that a [`PathManager`](super::PathManager) has to open, and the state of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathAttempt {
    /// Name of the interface; empty if no interface has the local address.
    pub interface: String,
    /// Local address of the path.
    pub local: IpAddr,
    /// The server's address.
    pub remote: SocketAddr,
    /// `true` while the path is open.
    pub is_open: bool,
    /// Reason why the last attempt to open it failed.
    pub error: Option<String>,
}
