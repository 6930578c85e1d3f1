//! Attempts to open a path.

use std::net::{IpAddr, SocketAddr};

/// A path that a [`PathManager`](super::PathManager) wants, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathAttempt {
    /// The interface; empty if none has its address.
    pub interface: String,
    /// Local address of the path.
    pub local: IpAddr,
    /// The server's address.
    pub remote: SocketAddr,
    /// `true` while the path is open.
    pub is_open: bool,
    /// Reason that the newest attempt to open it failed.
    pub error: Option<String>,
}
