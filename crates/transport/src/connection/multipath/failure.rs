//! Paths that fall silent: noticed, replaced, asked again and again, taken back into use or given up.
//!
//! A path is *potentially failed* when an answer on it has been overdue for a probe timeout while another path works. What
//! is under way on it is sent again on others at once, the peer is told with PATH_STATUS_BACKUP in the same packet, and
//! the path is asked with PATH_CHALLENGE until it answers: that, unlike a PING, has to be answered on the path itself
//! (RFC 9000 §8.2.2), so that the answer shows that both directions work.

use std::time::Duration;

use anabranch_wire::{PathId, SpaceId, Time, TransportErrorCode};

use super::Multipath;
use crate::connection::acked::is_repeated;
use crate::connection::connection::Connection;
use crate::path::{Health, Path, Purpose, Validation};
use crate::token::Token;

/// Longest time between two challenges on a failing path whose probe timeout is not longer. A path that works again is back
/// in use so much later at most, at the price of 24 kbit/s of challenges while it does not.
pub(crate) const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// Packets under way among which the oldest is looked for that asks for an acknowledgment: it is the first, or follows on
/// acknowledgments, which are accompanied by a PING every so often.
const MAX_OLDEST: usize = 64;

impl Multipath {
    pub(super) fn health(&self, path: PathId) -> Option<&Health> {
        self.health.iter().find(|health| health.path == path)
    }

    pub(super) fn health_mut(&mut self, path: PathId, now: Time) -> &mut Health {
        let known = self.health.iter().position(|health| health.path == path);
        let at = known.unwrap_or_else(|| {
            self.health.push(Health::new(path, now));
            self.health.len() - 1
        });
        &mut self.health[at]
    }

    /// The path is forgotten.
    pub(super) fn forget_health(&mut self, path: PathId) {
        self.health.retain(|health| health.path != path);
    }
}

impl Connection {
    /// An authentic packet came on the path.
    pub(in crate::connection) fn on_path_heard(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_heard(now);
        }
    }

    /// A packet came on the path that asks for an acknowledgment: the peer uses the path, and so has a reason to be late with
    /// its own. One that only acknowledges may be all about other paths.
    pub(in crate::connection) fn on_path_lives(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_lives(now);
        }
    }

    /// A packet leaves on the path that the peer has to acknowledge.
    pub(in crate::connection) fn on_path_asked(&mut self, now: Time, id: PathId, owed: &[Token]) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_asked(now);
            multipath.messages += u64::from(owed.contains(&Token::Datagram));
        }
    }

    /// Packets of the path were acknowledged, by a frame that came on the path `via`.
    pub(in crate::connection) fn on_path_acked(&mut self, now: Time, id: PathId, via: PathId) {
        let oldest = self.oldest_asking(id);
        let Some(multipath) = &mut self.multipath else { return };
        multipath.health_mut(id, now).on_acked(now, oldest);
        // An acknowledgment that took another way says nothing about the way back.
        if via == id {
            self.on_path_answers(now, id);
        }
    }

    /// When the oldest packet left on the path that asks for an acknowledgment, has none, and was not sent again elsewhere.
    fn oldest_asking(&self, id: PathId) -> Option<Time> {
        self.multipath.as_ref()?;
        let under_way =
            self.paths.get(id)?.recovery.under_way(SpaceId::Data, self.moved_before(id)..u64::MAX);
        let mut asking = under_way.take(MAX_OLDEST).filter(|(_, sent)| sent.ack_eliciting && !sent.mtu_probe);
        asking.next().map(|(_, sent)| sent.time)
    }

    /// A DATAGRAM arrived.
    pub(in crate::connection) fn on_message(&mut self) {
        if let Some(multipath) = &mut self.multipath {
            multipath.messages += 1;
        }
    }

    /// Whether packets of the path that were sent before this order have been sent again elsewhere.
    pub(in crate::connection) fn moved_before(&self, id: PathId) -> u64 {
        let health = self.multipath.as_ref().and_then(|multipath| multipath.health(id));
        health.map_or(0, |health| health.moved)
    }

    /// What is under way on the path is sent again, wherever there is room, unless that has been done before. Says whether there was
    /// anything.
    pub(in crate::connection) fn requeue_unacked(&mut self, now: Time, id: PathId) -> bool {
        let moved = self.moved_before(id);
        let Some(path) = self.paths.get(id) else { return false };
        let next = path.recovery.next_order(SpaceId::Data);
        let unacked = path.recovery.under_way(SpaceId::Data, moved..next).filter(|(_, sent)| !sent.mtu_probe);
        let tokens: Vec<_> = unacked.flat_map(|(_, sent)| sent.owed.iter().copied()).collect();
        for token in &tokens {
            self.on_token_lost(token);
        }
        self.repeat_again(now, &tokens);
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).moved = next;
        }
        tokens.iter().any(is_repeated)
    }

    /// Whether data may be sent on the path with the prospect of its arriving.
    pub(super) fn is_working(path: &Path) -> bool {
        path.is_usable() && !path.is_failing && !path.is_amplification_blocked()
    }

    /// Whether another path works, although this one was asked at `asked` and has not answered until `deadline`.
    fn has_way_out(&self, id: PathId, asked: Time, deadline: Time) -> bool {
        let Some(multipath) = &self.multipath else { return false };
        self.paths.iter().filter(|other| other.id != id && Self::is_working(other)).any(|other| {
            let rtt = other.recovery.rtt().smoothed();
            multipath.health(other.id).is_none_or(|health| health.outlives(asked, deadline, rtt))
        })
    }

    /// When the path will have been silent for too long; `None` if it owes no answer, or there is no way round it.
    fn silent_at(&self, path: &Path) -> Option<Time> {
        if !path.is_usable() || path.is_failing {
            return None;
        }
        let health = self.multipath.as_ref()?.health(path.id)?;
        let deadline = health.silent_at(path.recovery.pto(SpaceId::Data))?;
        let asked = health.asked()?;
        self.has_way_out(path.id, asked, deadline).then_some(deadline)
    }

    /// The peer wants the path as a backup. If something on it should have been answered by now, the reason is that the path
    /// fails, and there is no need to wait for a probe timeout of our own.
    pub(super) fn on_peer_backup(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.again.begin(now);
        }
        let Some(path) = self.paths.get(id).filter(|path| path.is_usable() && !path.is_failing) else {
            return;
        };
        let asked = self.multipath.as_ref().and_then(|multipath| multipath.health(id)?.asked());
        let overdue = asked.is_some_and(|asked| now.saturating_since(asked) > path.recovery.rtt().pto_base());
        if overdue && self.paths.iter().any(|other| other.id != id && Self::is_working(other)) {
            self.begin_failing(now, id);
        }
    }

    /// The peer can use the path again: so may we, as soon as it answers.
    pub(super) fn on_peer_available(&mut self, now: Time, id: PathId) {
        let failing = self.paths.get_mut(id).filter(|path| path.is_failing && path.is_usable());
        if let Some(path) = failing {
            let tuple = path.tuple;
            path.validations.iter_mut().filter(|one| one.tuple == tuple).for_each(|one| one.hurry(now));
        }
    }

    pub(super) fn begin_failing(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        path.is_failing = true;
        let (tuple, dcid) = (path.tuple, path.remote_cids.active());
        let confirms = |one: &Validation| one.tuple == tuple && one.purpose == Purpose::Confirm;
        if !path.validations.iter().any(confirms) {
            let pto = path.recovery.pto(SpaceId::Data);
            path.begin_validation(Validation::of_life(now, tuple, dcid, pto, MAX_PROBE_INTERVAL));
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_failing(now);
            multipath.again.begin(now);
        }
        let repeats = self.requeue_unacked(now, id);
        // RFC 9002 §7.5: the window does not hold probes back. Those of the path leave on another one, whose window may be full of
        // what cannot be read before them.
        if let Some(other) = self.fastest().filter(|_| repeats).and_then(|other| self.paths.get_mut(other)) {
            other.recovery.probe_instead(SpaceId::Data);
        }
        // What is repeated is not to be lost again in the queue that slow start fills.
        for other in self.paths.iter_mut().filter(|other| other.id != id && Self::is_working(other)) {
            other.recovery.hold(now);
        }
        self.review_status(id);
    }

    /// The path has shown that it works in both directions.
    pub(in crate::connection) fn on_path_answers(&mut self, now: Time, id: PathId) {
        let since = self.multipath.as_ref().and_then(|multipath| multipath.health(id)?.silent_since());
        let Some(path) = self.paths.get_mut(id).filter(|path| path.is_failing && path.is_usable()) else {
            return;
        };
        path.is_failing = false;
        path.validations.retain(|validation| validation.purpose != Purpose::Life);
        if since.is_some_and(|since| now.saturating_since(since) >= path.recovery.outage()) {
            path.recovery.resume(now);
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_works_again(now);
        }
        self.review_status(id);
    }

    /// When one of the paths needs attention because of its silence.
    pub(in crate::connection) fn health_timeout(&self) -> Option<Time> {
        let again = self.multipath.as_ref()?.again.next();
        let attention = self.paths.iter().filter_map(|path| self.attention(path).map(|(time, _)| time)).min();
        attention.into_iter().chain(again).min()
    }

    /// What the path needs first, and when.
    fn attention(&self, path: &Path) -> Option<(Time, Attention)> {
        let config = self.config.multipath.as_ref()?;
        let health = self.multipath.as_ref()?.health(path.id)?;
        if !path.is_usable() {
            return None;
        }
        let others = self.paths.iter().any(|other| other.id != path.id && Self::is_working(other));
        let give_up = config.path_idle_timeout.filter(|_| others);
        if path.is_failing {
            return Some((health.failing_since + give_up?, Attention::GiveUp));
        }
        let silent = self.silent_at(path).map(|time| (time, Attention::Silent));
        let look_after = give_up.map(|timeout| (health.look_after(timeout), Attention::LookAfter));
        let keep_alive =
            config.path_keep_alive.map(|interval| (health.keep_alive(interval), Attention::KeepAlive));
        silent.into_iter().chain(look_after).chain(keep_alive).min_by_key(|(time, _)| *time)
    }

    /// Looks after paths whose time has come.
    pub(in crate::connection) fn expire_health(&mut self, now: Time) {
        if self.multipath.is_none() {
            return;
        }
        self.expire_again(now);
        for index in 0..self.paths.len() {
            let id = self.paths.nth(index);
            let due = self.paths.get(id).and_then(|path| self.attention(path));
            match due.filter(|(time, _)| now >= *time) {
                Some((_, Attention::Silent)) => self.begin_failing(now, id),
                Some((_, Attention::GiveUp)) => {
                    self.give_up_path(now, id, TransportErrorCode::PATH_UNSTABLE_OR_POOR.0);
                }
                Some((_, Attention::LookAfter)) => self.look_after(now, id),
                Some((_, Attention::KeepAlive)) => self.keep_path_alive(now, id),
                None => {}
            }
        }
    }

    /// A path has had no traffic for long. If the connection is in use, the path is asked whether it still works: what it
    /// owes then decides.
    fn look_after(&mut self, now: Time, id: PathId) {
        let traffic = self.streams.bytes_received() + self.streams.bytes_sent();
        let Some(multipath) = &mut self.multipath else { return };
        let traffic = traffic + multipath.messages;
        if multipath.health_mut(id, now).on_looked_after(now, traffic)
            && let Some(path) = self.paths.get_mut(id)
        {
            path.ping = true;
        }
    }

    fn keep_path_alive(&mut self, now: Time, id: PathId) {
        let Some(multipath) = &mut self.multipath else { return };
        multipath.health_mut(id, now).on_keep_alive(now);
        if let Some(path) = self.paths.get_mut(id) {
            path.ping = true;
        }
    }
}

/// What a path needs.
#[derive(Clone, Copy, Debug)]
enum Attention {
    /// It owes an answer for too long.
    Silent,
    /// It has been failing for too long.
    GiveUp,
    /// It has had no traffic for long.
    LookAfter,
    /// It is to be kept alive.
    KeepAlive,
}
