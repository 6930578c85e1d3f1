//! Reasons for which paths are given up.

use std::time::Duration;

use anabranch_wire::TransportErrorCode;

/// Time and reason for which a path was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closure {
    /// Time since the connection began.
    pub after: Duration,
    /// A code of RFC 10069 §5, or of the application.
    pub code: u64,
    /// The peer gave it up first.
    pub by_peer: bool,
}

impl Closure {
    /// Returns the reason in a word or two, the same in every release.
    pub const fn reason(&self) -> &'static str {
        match TransportErrorCode(self.code) {
            TransportErrorCode::APPLICATION_ABANDON_PATH => "application",
            TransportErrorCode::PATH_RESOURCE_LIMIT_REACHED => "resource limit",
            TransportErrorCode::PATH_UNSTABLE_OR_POOR => "unstable or poor",
            TransportErrorCode::NO_CID_AVAILABLE_FOR_PATH => "no connection ID",
            _ => "other",
        }
    }
}
