//! Reactions to a silent path: its data is sent again on other paths, and the peer is informed.
//! `path/set/failure.rs` detects the silence.

use anabranch_wire::{PathId, SpaceId, Time, TransportErrorCode};

use crate::connection::acked::Fate;
use crate::connection::connection::Connection;
use crate::path::Attention;
use crate::token::Token;

impl Connection {
    /// Queues the path's unacknowledged frames again for any path, except those that were queued again
    /// before. Returns whether any of these frames is to be repeated.
    pub(in crate::connection) fn requeue_unacked(&mut self, now: Time, id: PathId) -> bool {
        let moved = self.paths.moved_before(id);
        let Some(path) = self.paths.list.get(id) else { return false };
        let next = path.recovery.next_order(SpaceId::Data);
        let unacked = path.recovery.under_way(SpaceId::Data, moved..next).filter(|(_, sent)| !sent.mtu_probe);
        let tokens: Vec<_> = unacked.flat_map(|(_, sent)| sent.owed.iter().copied()).collect();
        for token in &tokens {
            self.on_token(token, Fate::Lost);
        }
        self.paths.repeat_again(now, &tokens);
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.health_mut(id, now).moved = next;
        }
        tokens.iter().any(Token::is_repeated)
    }

    /// Handles the peer's request to use the path as a backup. If an acknowledgment on the path is overdue,
    /// the path begins to fail at once, before a probe timeout of this endpoint confirms it.
    pub(super) fn on_peer_backup(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.again.begin(now);
        }
        let Some(path) = self.paths.list.get(id).filter(|path| path.is_usable() && !path.is_failing) else {
            return;
        };
        let asked = self.paths.multipath.as_ref().and_then(|multipath| multipath.health(id)?.asked());
        let overdue = asked.is_some_and(|asked| now.saturating_since(asked) > path.recovery.rtt().pto_base());
        if overdue && self.paths.list.iter().any(|other| other.id != id && other.is_working()) {
            self.begin_failing(now, id);
        }
    }

    pub(super) fn begin_failing(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        path.is_failing = true;
        if !path.is_probed() {
            path.probe(now);
        }
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.health_mut(id, now).on_failing(now);
            multipath.again.begin(now);
        }
        let repeats = self.requeue_unacked(now, id);
        // RFC 9002 §7.5: the congestion window does not delay probes. The probes of the failing path are sent
        // on another path, even if its window is full: the application may be unable to read the data in
        // flight there before the repeated data.
        if let Some(other) =
            self.paths.fastest().filter(|_| repeats).and_then(|other| self.paths.list.get_mut(other))
        {
            other.recovery.probe_instead(SpaceId::Data);
        }
        // The windows of the other paths stop growing for one round trip, so that repeated data is not lost
        // again in a queue that slow start fills.
        for other in self.paths.list.iter_mut().filter(|other| other.id != id && other.is_working()) {
            other.recovery.hold(now);
        }
        self.paths.review_status(id);
    }

    /// Cancels what the path's addresses are validated for.
    #[cfg(test)]
    pub(crate) fn cancel_validations(&mut self, id: PathId) {
        self.paths.list.get_mut(id).unwrap().cancel_validations(|_| true);
    }

    /// Checks the paths whose health timers have expired.
    pub(in crate::connection) fn expire_health(&mut self, now: Time) {
        if self.paths.multipath.is_none() {
            return;
        }
        self.expire_again(now);
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let due = self.paths.list.get(id).and_then(|path| self.paths.attention(path));
            match due.filter(|(time, _)| now >= *time) {
                Some((_, Attention::Silent)) => self.begin_failing(now, id),
                Some((_, Attention::Probe)) => {
                    if let Some(path) = self.paths.list.get_mut(id) {
                        path.probe(now);
                    }
                }
                Some((_, Attention::MoveRest)) => _ = self.requeue_unacked(now, id),
                Some((_, Attention::GiveUp)) => {
                    self.give_up_path(now, id, TransportErrorCode::PATH_UNSTABLE_OR_POOR.into());
                }
                Some((_, Attention::LookAfter)) => self.look_after(now, id),
                Some((_, Attention::KeepAlive)) => self.paths.keep_path_alive(now, id),
                None => {}
            }
        }
    }

    /// Probes a path without traffic if the connection is in use. The response, or its absence, shows whether
    /// the path still works.
    fn look_after(&mut self, now: Time, id: PathId) {
        let traffic = self.streams.bytes_received() + self.streams.bytes_sent();
        let Some(multipath) = &mut self.paths.multipath else { return };
        let traffic = traffic + multipath.messages;
        if multipath.health_mut(id, now).on_looked_after(now, traffic)
            && let Some(path) = self.paths.list.get_mut(id)
        {
            path.ping = true;
        }
    }
}
