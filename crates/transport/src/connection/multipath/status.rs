//! What a path is for, and what its state is: data, only if nothing else works (RFC 10069 §3.3), or not for now.

use anabranch_wire::{PathId, Time};

use crate::connection::connection::Connection;
use crate::event::Event;
use crate::path::{IdleReason, Path, PathState, Phase};
use crate::trace::TraceEvent;

impl Connection {
    /// Says whether a path is to be used like others or only when no other works; the peer is told, and is free to do as it
    /// likes with what it sends. Says whether there is such a path.
    pub fn set_path_available(&mut self, id: PathId, available: bool) -> bool {
        let open = self.paths.get(id).is_some_and(|path| !path.is_abandoned());
        let Some(multipath) = self.multipath.as_mut().filter(|_| open) else { return false };
        // Whatever is open has been heard of, so that the time is not looked at.
        multipath.health_mut(id, Time::ZERO).wanted = available;
        self.review_status(id);
        true
    }

    /// Tells the peer what the path is for: what the application wants it for, and a backup while it fails. Both share the
    /// status frames and their sequence numbers.
    pub(super) fn review_status(&mut self, id: PathId) {
        let Some(multipath) = &mut self.multipath else { return };
        let wanted = multipath.health(id).is_none_or(|health| health.wanted);
        multipath.states_changed = true;
        let tells = self.config.multipath.as_ref().is_none_or(|config| config.path_signalling);
        if let Some(path) = self.paths.get_mut(id) {
            path.owes_status |= path.local_status.change(wanted && !(path.is_failing && tells));
        }
    }

    /// Forgets what the peer has said about paths that are not open, as ends do that ignore it. Says whether there was anything.
    #[cfg(test)]
    pub(crate) fn ignore_early_statuses(&mut self) -> bool {
        let Some(multipath) = &mut self.multipath else { return false };
        let before = multipath.unopened.change().values_mut().map(|unopened| {
            std::mem::replace(&mut unopened.status, crate::path::Status::new()).sequence().is_some()
        });
        before.filter(|said| *said).count() > 0
    }

    /// The peer has said what a path is for. The frame may come before the path does.
    pub(super) fn on_path_status(&mut self, now: Time, id: PathId, available: bool, sequence: u64) {
        let Some(multipath) = &mut self.multipath else { return };
        let Some(path) = self.paths.get_mut(id) else {
            if let Some(unopened) = multipath.unopened.change().get_mut(&id) {
                unopened.status.learn(available, sequence);
            }
            return;
        };
        let before = path.peer_status;
        path.peer_status.learn(available, sequence);
        if path.peer_status == before {
            return;
        }
        multipath.states_changed = true;
        match available {
            true => self.on_peer_available(now, id),
            false => self.on_peer_backup(now, id),
        }
    }

    /// Tells the application and observers of paths whose state has changed. Called when a batch or timeout has been worked
    /// off, so that a peer cannot make more events than there are paths by changing its mind.
    pub(in crate::connection) fn report_states(&mut self, now: Time) {
        let Some(multipath) = &mut self.multipath else { return };
        if !std::mem::take(&mut multipath.states_changed) || !self.state.is_active() {
            return;
        }
        for index in 0..self.paths.len() {
            let id = self.paths.nth(index);
            let Some(path) = self.paths.get(id).filter(|path| path.is_usable()) else { continue };
            let state = self.path_state(path);
            let Some(multipath) = &mut self.multipath else { return };
            let reported = &mut multipath.health_mut(id, now).reported;
            if std::mem::replace(reported, state) != state {
                self.events.push_back(Event::PathStatus { path: id, state });
                let idle = self.paths.get(id).and_then(|path| self.idle_reason(path));
                self.trace(now, &TraceEvent::PathState { path: id, state, idle });
            }
        }
    }

    /// What the path is doing.
    pub(in crate::connection) fn path_state(&self, path: &Path) -> PathState {
        match path.phase {
            Phase::Opening => PathState::Opening,
            Phase::Abandoned { .. } => PathState::Abandoned,
            Phase::Open if path.is_failing => PathState::Failing,
            Phase::Open if path.is_available() => PathState::Open,
            Phase::Open => PathState::Backup,
        }
    }

    /// Why the path sends no data now; `None` if it is about to.
    pub(in crate::connection) fn idle_reason(&self, path: &Path) -> Option<IdleReason> {
        let usable = |other: &&Path| other.id != path.id && Self::is_working(other);
        let better = |other: &Path| other.is_available() || path.is_failing;
        let replaced = self.paths.iter().filter(usable).any(better);
        let reason = match path.phase {
            Phase::Opening => IdleReason::NotValidated,
            Phase::Abandoned { .. } => IdleReason::Abandoned,
            Phase::Open if !path.remote_cids.is_open() => IdleReason::NoConnectionIds,
            Phase::Open if path.is_amplification_blocked() => IdleReason::AmplificationLimit,
            Phase::Open if path.is_failing && replaced => IdleReason::PotentiallyFailed,
            Phase::Open if !path.local_status.available && replaced => IdleReason::BackupHere,
            Phase::Open if !path.peer_status.available && replaced => IdleReason::BackupByPeer,
            Phase::Open if !self.has_shared_data() => IdleReason::NothingToSend,
            Phase::Open if !path.recovery.has_room() => IdleReason::CongestionWindow,
            Phase::Open if path.paced_until.is_some() => IdleReason::Pacing,
            Phase::Open if self.paths.len() > 1 => IdleReason::Scheduler,
            Phase::Open => return None,
        };
        Some(reason)
    }
}
