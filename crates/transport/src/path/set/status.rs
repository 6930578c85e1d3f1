//! Status of paths (RFC 10069 §3.3): set by the application, sent to the peer, received from the peer.

use super::{PathError, PathSet};
use anabranch_wire::{PathId, Time};

use crate::path::{Path, PathState, PathStatus, Phase};

impl PathSet {
    /// Sets whether a path is available or a backup, and announces it to the peer. The peer may ignore the
    /// status when it chooses paths for its own packets.
    pub(crate) fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.open_path(id)?;
        let multipath = self.multipath.as_mut().ok_or(PathError::NotNegotiated)?;
        // An open path already has an entry, so the time is not used.
        multipath.health_mut(id, Time::ZERO).wanted = status.is_available();
        self.review_status(id);
        Ok(())
    }

    /// Announces the status of a path to the peer: the application's choice, or backup while the path fails.
    /// Both use the same status frames and sequence numbers.
    pub(crate) fn review_status(&mut self, id: PathId) {
        let Some(multipath) = &mut self.multipath else { return };
        let wanted = multipath.health(id).is_none_or(|health| health.wanted);
        multipath.states_changed = true;
        let tells = self.config.multipath.as_ref().is_none_or(|config| config.path_signalling);
        if let Some(path) = self.list.get_mut(id) {
            path.status.is_owed |= path.status.local.change(wanted && !(path.is_failing && tells));
        }
    }

    /// Discards the statuses that the peer announced for unopened paths, like endpoints that ignore them.
    /// Returns whether there were any.
    #[cfg(test)]
    pub(crate) fn ignore_early_statuses(&mut self) -> bool {
        let Some(multipath) = &mut self.multipath else { return false };
        let before = multipath.unopened.change().values_mut().map(|unopened| {
            std::mem::replace(&mut unopened.status, crate::path::Status::new()).sequence().is_some()
        });
        before.filter(|said| *said).count() > 0
    }

    /// Returns the state of the path.
    pub(crate) fn path_state(&self, path: &Path) -> PathState {
        match path.phase {
            Phase::Opening => PathState::Opening,
            Phase::Abandoned { .. } => PathState::Abandoned,
            Phase::Open if path.is_failing => PathState::Failing,
            Phase::Open if path.is_available() => PathState::Open,
            Phase::Open => PathState::Backup,
        }
    }
}
