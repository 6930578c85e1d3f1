//! State of abandoned paths (RFC 10069 §3.4), kept while packets may still arrive on them.

use anabranch_wire::{PathId, Time, TransportErrorCode};

use super::PathSet;
use crate::error::TransportError;
use crate::path::Phase;

/// Time for which an abandoned path's state is kept after the peer's PATH_ABANDON (RFC 10069 §3.4), in
/// multiples of the largest PTO of all paths. PATH_ABANDON may be sent on any path, so packets that the peer
/// sent earlier on the abandoned path may still be in flight.
pub(crate) const RETENTION_PTOS: u32 = 3;

impl PathSet {
    pub(crate) fn is_last_path(&self, id: PathId) -> bool {
        self.list.iter().all(|path| path.id == id || path.is_abandoned())
    }

    /// Begins the retention of an abandoned path's state, because the peer sends nothing more on the path.
    /// Packets that the peer has sent until now must still find their connection IDs. Otherwise they would
    /// trigger a stateless reset that the peer accepts (RFC 10069 §3.4.1).
    pub(crate) fn begin_retention(&mut self, now: Time, id: PathId) {
        let retention = self.list.max_pto() * RETENTION_PTOS;
        if let Some(path) = self.list.get_mut(id)
            && path.phase == (Phase::Abandoned { until: None })
        {
            path.phase = Phase::Abandoned { until: Some(now + retention) };
        }
    }

    /// Returns the number of closing paths: those whose state is still kept, and those whose PATH_ABANDON the
    /// peer has not acknowledged.
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
