//! Status of paths (RFC 10069 §3.3): wanted by the application, sent to the peer, received from it.

use super::{PathError, PathSet};
use anabranch_wire::{PathId, Time};

use crate::path::{Path, PathState, PathStatus, Phase};

impl PathSet {
    /// Says whether a path is to be used like others or only when no other works; the peer is told, and is
    /// free to do as it likes with what it sends.
    pub(crate) fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.open_path(id)?;
        let multipath = self.multipath.as_mut().ok_or(PathError::NotNegotiated)?;
        // Whatever is open has been heard of, so that the time is not looked at.
        multipath.health_mut(id, Time::ZERO).wanted = status.is_available();
        self.review_status(id);
        Ok(())
    }

    /// Tells the peer what the path is for: what the application wants it for, and a backup while it fails.
    /// Both share the status frames and their sequence numbers.
    pub(crate) fn review_status(&mut self, id: PathId) {
        let Some(multipath) = &mut self.multipath else { return };
        let wanted = multipath.health(id).is_none_or(|health| health.wanted);
        multipath.states_changed = true;
        let tells = self.config.multipath.as_ref().is_none_or(|config| config.path_signalling);
        if let Some(path) = self.list.get_mut(id) {
            path.status.is_owed |= path.status.local.change(wanted && !(path.is_failing && tells));
        }
    }

    /// Forgets what the peer has said about paths that are not open, as ends do that ignore it. Says whether
    /// there was anything.
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
