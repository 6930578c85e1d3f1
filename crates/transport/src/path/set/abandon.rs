//! State of abandoned paths (RFC 10069 §3.4): kept while packets of them may still arrive.

use anabranch_wire::{PathId, Time, TransportErrorCode};

use super::PathSet;
use crate::error::TransportError;
use crate::path::Phase;

/// Time for which an abandoned path's state is kept after the peer's PATH_ABANDON (RFC 10069 §3.4), in
/// multiples of the largest PTO of all paths. Packets still in flight on the path were sent before that
/// frame, which may have taken any of the paths.
pub(crate) const RETENTION_PTOS: u32 = 3;

impl PathSet {
    pub(crate) fn is_last_path(&self, id: PathId) -> bool {
        self.list.iter().all(|path| path.id == id || path.is_abandoned())
    }

    /// Begins the retention of an abandoned path's state, as the peer sends nothing on the path any longer.
    /// Until now it may have sent packets, which must find their connection IDs here. Otherwise they would
    /// cause a stateless reset that the peer believes (RFC 10069 §3.4.1).
    pub(crate) fn begin_retention(&mut self, now: Time, id: PathId) {
        let retention = self.list.max_pto() * RETENTION_PTOS;
        if let Some(path) = self.list.get_mut(id)
            && path.phase == (Phase::Abandoned { until: None })
        {
            path.phase = Phase::Abandoned { until: Some(now + retention) };
        }
    }

    /// Returns the number of paths that are closing: their state is kept, or the peer has not acknowledged
    /// PATH_ABANDON.
    pub(crate) fn closing_paths(&self) -> usize {
        let Some(multipath) = &self.multipath else { return 0 };
        let kept = self.list.iter().filter(|path| path.is_abandoned()).count();
        let unacknowledged =
            multipath.owed.abandons.iter().filter(|abandon| self.list.get(abandon.path).is_none());
        kept + unacknowledged.count()
    }
}

pub(crate) fn no_path_left() -> TransportError {
    TransportError::new(TransportErrorCode::NO_VIABLE_PATH, "no path is left")
}
