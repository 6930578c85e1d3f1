//! Changes of path states, reported to the application.

use anabranch_wire::{PathId, Time};

use crate::connection::connection::Connection;
use crate::event::Event;
use crate::path::{IdleReason, Path, Phase};
use crate::trace::TraceEvent;

impl Connection {
    /// Handles the peer's status of a path. The frame may arrive before the path is open.
    pub(super) fn on_path_status(&mut self, now: Time, id: PathId, available: bool, sequence: u64) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        let Some(path) = self.paths.list.get_mut(id) else {
            if let Some(unopened) = multipath.unopened.change().get_mut(&id) {
                unopened.status.learn(available, sequence);
            }
            return;
        };
        let before = path.status.peer;
        path.status.peer.learn(available, sequence);
        if path.status.peer == before {
            return;
        }
        multipath.states_changed = true;
        match available {
            true => self.paths.on_peer_available(now, id),
            false => self.on_peer_backup(now, id),
        }
    }

    /// Reports paths whose state has changed to the application and the observer. This happens only after a
    /// whole batch or timeout, or before sending. A peer that changes states repeatedly therefore causes no
    /// more events than there are paths.
    pub(in crate::connection) fn report_states(&mut self, now: Time) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        if !std::mem::take(&mut multipath.states_changed) || !self.state.is_active() {
            return;
        }
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let Some(path) = self.paths.list.get(id).filter(|path| path.is_usable()) else { continue };
            let state = self.paths.path_state(path);
            let Some(multipath) = &mut self.paths.multipath else { return };
            let reported = &mut multipath.health_mut(id, now).reported;
            if std::mem::replace(reported, state) != state {
                self.output.events.push_back(Event::PathState { path: id, state });
                let pending = self.has_shared_data();
                let idle = self.paths.list.get(id).and_then(|path| self.idle_reason(path, pending));
                self.trace(now, &TraceEvent::PathState { path: id, state, idle });
            }
        }
    }

    /// Informs the observer of the paths whose [`IdleReason`] has changed, if the connection has several
    /// paths.
    pub(in crate::connection) fn trace_idle(&mut self, now: Time) {
        if self.output.observer.is_none() || self.paths.list.len() < 2 {
            return;
        }
        let pending = self.has_shared_data();
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let Some(path) = self.paths.list.get(id) else { continue };
            let reason = self.idle_reason(path, pending);
            let Some(path) = self.paths.list.get_mut(id) else { continue };
            if path.traced.idle.replace(reason) != Some(reason) {
                self.trace(now, &TraceEvent::PathIdle { path: id, reason });
            }
        }
    }

    /// Returns the reason why the path carries no data now; `None` if it may carry data. `pending` is `true`
    /// if data waits for which the scheduler chooses a path.
    pub(in crate::connection) fn idle_reason(&self, path: &Path, pending: bool) -> Option<IdleReason> {
        let usable = |other: &&Path| other.id != path.id && other.is_working();
        let better = |other: &Path| other.is_available() || path.is_failing;
        let replaced = || self.paths.list.iter().filter(usable).any(better);
        let reason = match path.phase {
            Phase::Opening => IdleReason::NotValidated,
            Phase::Abandoned { .. } => IdleReason::Abandoned,
            Phase::Open if !path.remote_cids.is_open() => IdleReason::NoConnectionIds,
            Phase::Open if path.is_amplification_blocked() => IdleReason::AmplificationLimit,
            Phase::Open if path.is_failing && replaced() => IdleReason::PotentiallyFailed,
            Phase::Open if !path.status.local.available && replaced() => IdleReason::BackupHere,
            Phase::Open if !path.status.peer.available && replaced() => IdleReason::BackupByPeer,
            Phase::Open if !pending => IdleReason::NothingToSend,
            Phase::Open if !path.recovery.has_room() => IdleReason::CongestionWindow,
            Phase::Open if path.paced_until.is_some() => IdleReason::Pacing,
            Phase::Open if self.paths.list.len() > 1 => IdleReason::Scheduler,
            Phase::Open => return None,
        };
        Some(reason)
    }
}
