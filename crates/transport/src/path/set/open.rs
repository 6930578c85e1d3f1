//! Reasons for which a path cannot be opened.

use super::PathSet;

/// Why no path was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// Only clients open paths (RFC 10069 §3.1).
    #[error("only a client may open a path")]
    Server,
    /// Nothing may be opened before that.
    #[error("the handshake is not complete yet")]
    NotConnected,
    /// This end or the peer does not want it.
    #[error("multipath was not negotiated")]
    NotNegotiated,
    /// All path IDs that both ends allow are used; the peer is told.
    #[error("no path is left that both ends allow")]
    NoPathId,
    /// The peer has not given a connection ID for the next path yet; it is told.
    #[error("the peer has given no connection ID for another path")]
    NoConnectionId,
    /// There is an open path between these addresses.
    #[error("there is a path between these addresses already")]
    Exists,
}

impl PathSet {
    /// Whether several paths may be used.
    pub(crate) fn is_multipath(&self) -> bool {
        self.multipath.is_some()
    }
}
