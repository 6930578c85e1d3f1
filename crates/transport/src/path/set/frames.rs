//! Checks of path IDs in received frames of RFC 10069 (§4).

use anabranch_wire::{PathId, Side, TransportErrorCode};

use super::Multipath;
use super::PathSet;
use crate::error::TransportError;
use crate::error::violation;

impl Multipath {
    /// Checks that the peer was allowed to use a path ID in its frame.
    pub(crate) fn check(&self, side: Side, path: PathId) -> Result<(), TransportError> {
        if let Some(pool) = &self.pool {
            return pool.check(side, path);
        }
        if path > self.local_max {
            return Err(violation("path ID above the maximum"));
        }
        Ok(())
    }
}

impl PathSet {
    pub(crate) fn on_path_cids_blocked(
        &mut self,
        path: PathId,
        next_sequence: u64,
    ) -> Result<(), TransportError> {
        let unopened = self.multipath.as_ref().and_then(|multipath| multipath.unopened.get(&path));
        let local = unopened.map(|unopened| &unopened.local);
        let local = local.or_else(|| self.list.get(path).map(|path| &path.local_cids));
        if local.is_some_and(|local| next_sequence > local.next_sequence()) {
            return Err(violation("PATH_CIDS_BLOCKED for an ID that is not next"));
        }
        // Nothing needs to be sent: all connection IDs that can be issued have been issued, and lost frames
        // are sent again anyway.
        Ok(())
    }
}

pub(crate) fn not_negotiated() -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "multipath frame without negotiation")
}
