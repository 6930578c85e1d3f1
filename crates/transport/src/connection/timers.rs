//! The connection's timers: one deadline out, everything that is due in.

use std::time::Duration;

use anabranch_recovery::Expired;
use anabranch_wire::{PathId, SpaceId, Time};

use super::connection::Connection;
use super::handshake::Level;
use crate::config::TransportConfig;
use crate::error::{ConnectionError, Silence};
use crate::trace::{TimerKind, TraceEvent};

/// Probe timeouts within which a peer has to answer after this end was asleep for longer than the idle timeout, as for the idle
/// timeout itself (RFC 9000 §10.1).
const AWAKE_PTOS: u32 = 3;

/// Idle timeout and keep-alive (RFC 9000 §10.1).
#[derive(Debug)]
pub(super) struct Idle {
    timeout: Option<Duration>,
    keep_alive: Option<Duration>,
    /// When the idle timer was last restarted.
    since: Time,
    /// When a packet was last received or an ack-eliciting one sent.
    last_traffic: Time,
    /// When the handshake has to be complete; `None` once it is.
    handshake_until: Option<Time>,
    /// Whether an ack-eliciting packet was sent since the last one was received.
    sent: bool,
    /// When an authentic packet was last received.
    heard: Option<Time>,
    /// How long this end has been asleep since then.
    asleep: Duration,
    /// When a peer has to have answered whose own idle timeout may have passed while this end was asleep.
    awake_until: Option<Time>,
}

impl Idle {
    pub(super) fn new(now: Time, config: &TransportConfig) -> Self {
        let (timeout, keep_alive) = (config.max_idle_timeout, config.keep_alive);
        let handshake_until = Some(now + config.handshake_timeout);
        Self {
            timeout,
            keep_alive,
            since: now,
            last_traffic: now,
            handshake_until,
            sent: false,
            heard: None,
            asleep: Duration::ZERO,
            awake_until: None,
        }
    }

    /// The handshake is complete.
    pub(super) fn on_handshake_complete(&mut self) {
        self.handshake_until = None;
    }

    /// The peer's `max_idle_timeout` in milliseconds, 0 for none: the smaller one holds.
    pub(super) fn set_peer_timeout(&mut self, millis: u64) {
        let peer = (millis > 0).then(|| Duration::from_millis(millis));
        self.timeout = match (self.timeout, peer) {
            (Some(ours), Some(peer)) => Some(ours.min(peer)),
            (ours, peer) => ours.or(peer),
        };
    }

    pub(super) fn on_received(&mut self, now: Time) {
        self.since = now;
        self.last_traffic = now;
        self.sent = false;
        self.heard = Some(now);
        self.asleep = Duration::ZERO;
        self.awake_until = None;
    }

    /// When an authentic packet was last received.
    pub(super) fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// This end was asleep for so long, and `pto` is the probe timeout.
    fn on_awake(&mut self, now: Time, asleep: Duration, pto: Duration) {
        self.asleep = self.asleep.saturating_add(asleep);
        if self.timeout.is_some_and(|timeout| self.asleep >= timeout) {
            self.awake_until.get_or_insert(now + pto * AWAKE_PTOS);
        }
    }

    fn silence(&self, now: Time) -> Silence {
        Silence { heard: self.heard.map(|heard| now.saturating_since(heard)), asleep: self.asleep }
    }

    /// Only the first ack-eliciting packet since the last one received restarts the timer.
    pub(super) fn on_sent(&mut self, now: Time, eliciting: bool) {
        if eliciting {
            self.last_traffic = now;
            if !self.sent {
                self.sent = true;
                self.since = now;
            }
        }
    }

    /// When to give up: at least three PTOs after the last sign of life, so that a few losses do not end the connection.
    fn silence_ends(&self, pto: Duration) -> Option<Time> {
        self.timeout.map(|timeout| self.since + timeout.max(pto * 3))
    }

    fn deadline(&self, pto: Duration) -> Option<Time> {
        self.silence_ends(pto).into_iter().chain(self.handshake_until).chain(self.awake_until).min()
    }

    /// Why the connection is to be given up now, if it is. Silence says more than the handshake's time being over.
    fn overdue(&self, now: Time, pto: Duration) -> Option<ConnectionError> {
        let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| now >= deadline);
        let silence = self.silence(now);
        if is_over(self.silence_ends(pto)) || is_over(self.awake_until) {
            return Some(ConnectionError::TimedOut(silence));
        }
        let heard = silence.heard.is_some();
        let error =
            if heard { ConnectionError::HandshakeTimedOut } else { ConnectionError::TimedOut(silence) };
        is_over(self.handshake_until).then_some(error)
    }

    fn keep_alive_deadline(&self) -> Option<Time> {
        Some(self.last_traffic + self.keep_alive?)
    }
}

impl Connection {
    /// When [`Self::handle_timeout`] is to be called if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.state.is_active() {
            return self.state.until();
        }
        let acks = self.levels.iter().filter_map(Level::ack_timeout).min();
        let paced = self.paths.list.iter().filter_map(|path| path.paced_until).min();
        let keep_alive = self.idle.keep_alive_deadline().filter(|_| self.handshake.confirmed);
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

    /// Does what is due at `now`; harmless when called too early.
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
        if self.handshake.confirmed && self.idle.keep_alive_deadline().is_some_and(|deadline| now >= deadline)
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

    /// How long the peer has been silent, and how much of that this end was asleep.
    pub fn silence(&self, now: Time) -> Silence {
        self.idle.silence(now)
    }

    /// This end was asleep for so long: the host was suspended, or the process stopped. The peer is asked at once whether it is
    /// still there; if its idle timeout has passed meanwhile, it has to answer soon.
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
                // Tokens say themselves which space they belong to.
                self.settle(now, SpaceId::Data, id, &mut outcome);
                self.scan_for_losses(now);
            }
            Some(Expired::Pto { space }) => {
                self.trace(now, &TraceEvent::TimerExpired { path: id, kind: TimerKind::Pto, space });
                self.settle(now, space, id, &mut outcome);
                if let Some(path) = self.paths.list.get_mut(id) {
                    path.probe_response = true;
                }
                self.report_silence(now, space, id);
                // A failing path is asked with challenges; what was on it is on its way elsewhere.
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
