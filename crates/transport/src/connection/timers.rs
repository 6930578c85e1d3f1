//! Timers of a connection: their common deadline, and their expiry.

use std::time::Duration;

use anabranch_recovery::Expired;
use anabranch_wire::{PathId, SpaceId, Time};

use crate::connection::connection::Connection;
use crate::connection::parts::Level;
use crate::error::Silence;
use crate::trace::{TimerKind, TraceEvent};

impl Connection {
    /// Returns the time at which [`Self::handle_timeout`] must be called unless the connection changes
    /// before.
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.state.is_active() {
            return self.state.until();
        }
        let acks = self.levels.iter().filter_map(Level::ack_timeout).min();
        let paced = self.paths.list.iter().filter_map(|path| path.paced_until).min();
        let keep_alive = self.idle.keep_alive_deadline().filter(|_| self.handshake.progress.confirmed);
        let timers = [
            self.paths.list.timeout(),
            acks,
            paced,
            keep_alive,
            self.idle.deadline(self.paths.list.max_pto()),
            self.handshake.early_until,
            self.paths.health_timeout(),
            self.quiet_timeout(),
            self.silence_timeout(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers that have expired by `now`. An early call does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.state.is_active() {
            if self.state.until().is_some_and(|until| now >= until) {
                self.become_drained();
            }
            return;
        }
        if let Some(error) = self.idle.overdue(now, self.paths.list.max_pto()) {
            return self.end_silently(now, error);
        }
        self.levels.iter_mut().for_each(|level| level.acks.release(now));
        if self.handshake.progress.confirmed
            && self.idle.keep_alive_deadline().is_some_and(|deadline| now >= deadline)
        {
            self.idle.last_traffic = now;
            self.paths.list.main_mut().ping = true;
        }
        if self.handshake.early_until.is_some_and(|until| now >= until) {
            self.handshake.early_until = None;
            if self.keys.early.take().is_some() {
                self.trace(now, &TraceEvent::KeysDiscarded { space: SpaceId::Data });
            }
        }
        self.expire_health(now);
        self.expire_quiet(now);
        self.expire_silence(now);
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            if self.paths.list.get(id).is_some_and(|path| !path.is_abandoned()) {
                self.expire_recovery(now, id);
                self.expire_validations(now, id);
            }
        }
        self.expire_abandoned(now);
        self.report_states(now);
    }

    /// Returns how long the peer has been silent, and how much of that time this endpoint was asleep.
    pub fn silence(&self, now: Time) -> Silence {
        self.idle.silence(now)
    }

    /// Records that this endpoint was asleep: the host was suspended, or the process was stopped. Probes the
    /// peer at once. If the peer's idle timeout may have expired meanwhile, the peer must respond within
    /// three PTOs.
    pub fn on_awake(&mut self, now: Time, asleep: Duration) {
        if !self.state.is_active() {
            return;
        }
        self.idle.on_awake(now, asleep, self.paths.list.max_pto());
        self.ask_again(now);
    }

    fn expire_recovery(&mut self, now: Time, id: PathId) {
        let mut outcome = std::mem::take(&mut self.outcome);
        let siblings = self.paths.siblings(id);
        let expired = self.paths.list.get_mut(id).and_then(|path| {
            let due = path.recovery.poll_timeout().is_some_and(|deadline| now >= deadline);
            if due { path.recovery.on_timeout(now, &siblings, &mut outcome) } else { None }
        });
        match expired {
            Some(Expired::Loss) => {
                self.trace(
                    now,
                    &TraceEvent::TimerExpired { path: id, kind: TimerKind::Loss, space: SpaceId::Data },
                );
                // The lost packets may belong to another space. Each token contains the space of its frame,
                // so only the traced space may be wrong.
                self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
                self.scan_for_losses(now);
            }
            Some(Expired::Pto { space }) => {
                self.trace(now, &TraceEvent::TimerExpired { path: id, kind: TimerKind::Pto, space });
                self.apply_outcome(now, space, id, &mut outcome);
                if let Some(path) = self.paths.list.get_mut(id) {
                    path.address.probe_response = true;
                }
                self.report_silence(now, space, id);
                // A failing path is probed with PATH_CHALLENGE; its data has been moved to other paths.
                let failing = self.paths.list.get(id).is_some_and(|path| path.is_failing);
                if !(space == SpaceId::Data && failing) {
                    self.probe_all_spaces(id);
                }
                self.paths.repeat_abandons();
            }
            None => {}
        }
        outcome.clear();
        self.outcome = outcome;
    }
}
