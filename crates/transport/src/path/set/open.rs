//! Reasons why a path cannot be opened or changed.

use anabranch_wire::PathId;

use super::PathSet;

/// Reasons why a path was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// Only clients open paths (RFC 10069 §3.1).
    #[error("only a client may open a path")]
    Server,
    /// Paths can be opened only after the handshake.
    #[error("the handshake is not complete yet")]
    NotConnected,
    /// This end or the peer does not support multipath.
    #[error("multipath was not negotiated")]
    NotNegotiated,
    /// All path IDs that both ends allow are used. PATHS_BLOCKED informs the peer.
    #[error("no path is left that both ends allow")]
    NoPathId,
    /// The peer has not issued a connection ID for the next path yet. PATH_CIDS_BLOCKED informs it.
    #[error("the peer has given no connection ID for another path")]
    NoConnectionId,
    /// A path between these addresses is already open.
    #[error("there is a path between these addresses already")]
    Exists,
}

/// Reasons why a path was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No path has this ID, or it was abandoned.
    #[error("there is no path {}", .0.0)]
    Unknown(PathId),
    /// The operation needs a connection with several paths.
    #[error("multipath was not negotiated")]
    NotNegotiated,
    /// No other path is usable. Close the connection instead.
    #[error("path {} is the only one in use: close the connection instead", .0.0)]
    Only(PathId),
}

/// Reasons why an address was not announced or withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// The client has not sent the transport parameter of the extension.
    #[error("the client does not accept further addresses")]
    NotWanted,
    /// The maximum number of addresses is announced.
    #[error("no more addresses can be announced")]
    TooMany,
    /// The address to withdraw was never announced, or is already withdrawn.
    #[error("the address is not announced")]
    NotAnnounced,
}

impl PathSet {
    /// Returns whether several paths may be used.
    pub(crate) fn is_multipath(&self) -> bool {
        self.multipath.is_some()
    }
}
