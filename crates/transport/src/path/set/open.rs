//! Reasons for which a path cannot be opened or changed.

use anabranch_wire::PathId;

use super::PathSet;

/// Reasons why no path was opened.
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

/// Reason that a path was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No path has this ID, or it was given up.
    #[error("there is no path {}", .0.0)]
    Unknown(PathId),
    /// Only a connection with several paths has such a choice.
    #[error("multipath was not negotiated")]
    NotNegotiated,
    /// No other path is usable: close the connection instead.
    #[error("path {} is the only one in use: close the connection instead", .0.0)]
    Only(PathId),
}

/// Reason that an address was not announced, or not withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// The client has not sent the transport parameter that allows it.
    #[error("the client does not accept further addresses")]
    NotWanted,
    /// As many addresses are announced as there may be.
    #[error("no more addresses can be announced")]
    TooMany,
    /// The address to withdraw was never announced, or is withdrawn already.
    #[error("the address is not announced")]
    NotAnnounced,
}

impl PathSet {
    /// Returns whether several paths may be used.
    pub(crate) fn is_multipath(&self) -> bool {
        self.multipath.is_some()
    }
}
