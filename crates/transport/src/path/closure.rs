//! Reasons for which paths are abandoned.

use std::time::Duration;

use anabranch_wire::{TransportErrorCode, VarInt};

/// Time and reason of a path's abandonment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closure {
    /// Time from the start of the connection to the abandonment.
    pub after: Duration,
    /// Error code of RFC 10069 §5, or of the application.
    pub code: VarInt,
    /// `true` if the peer abandoned the path first.
    pub by_peer: bool,
}

impl Closure {
    /// Returns the reason in one to three words that are the same in every release.
    pub const fn reason(&self) -> &'static str {
        match TransportErrorCode(self.code.get()) {
            TransportErrorCode::APPLICATION_ABANDON_PATH => "application",
            TransportErrorCode::PATH_RESOURCE_LIMIT_REACHED => "resource limit",
            TransportErrorCode::PATH_UNSTABLE_OR_POOR => "unstable or poor",
            TransportErrorCode::NO_CID_AVAILABLE_FOR_PATH => "no connection ID",
            _ => "other",
        }
    }
}
