//! Detection of silent paths: suspected, probed, taken back into use, or due to be abandoned.
//!
//! A path is *potentially failed* when an answer on it has been overdue for a probe timeout while another
//! path works. Its data in flight is sent again on other paths at once, the peer learns of it by
//! PATH_STATUS_BACKUP in the same packet, and the path is probed with PATH_CHALLENGE until a response
//! arrives. A response, unlike the ACK of a PING, has to arrive on the path itself (RFC 9000 §8.2.2), so it
//! proves that both directions work.

use std::time::Duration;

use anabranch_wire::{PathId, SpaceId, Time};

use super::Multipath;
use super::PathSet;
use crate::path::{Health, Path, Purpose};
use crate::token::Token;

/// Longest time between two challenges on a failing path whose probe timeout is not longer. A path that works
/// again is back in use so much later at most, at the price of 24 kbit/s of challenges while it does not.
pub(crate) const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// Packets under way among which the oldest is looked for that asks for an acknowledgment: it is the first,
/// or follows on acknowledgments, which are accompanied by a PING every so often.
pub(crate) const MAX_OLDEST: usize = 64;

impl Multipath {
    pub(crate) fn health(&self, path: PathId) -> Option<&Health> {
        self.health.iter().find(|health| health.path == path)
    }

    pub(crate) fn health_mut(&mut self, path: PathId, now: Time) -> &mut Health {
        let known = self.health.iter().position(|health| health.path == path);
        let at = known.unwrap_or_else(|| {
            self.health.push(Health::new(path, now));
            self.health.len() - 1
        });
        &mut self.health[at]
    }

    /// Removes the health of a path that is forgotten.
    pub(crate) fn forget_health(&mut self, path: PathId) {
        self.health.retain(|health| health.path != path);
    }
}

impl PathSet {
    /// Notes that an authentic packet arrived on the path.
    pub(crate) fn on_path_heard(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_heard(now);
        }
    }

    /// Notes that an ack-eliciting packet arrived on the path: the peer uses the path, and so has a reason to
    /// be late with its own acknowledgments. A packet that only acknowledges may concern other paths alone.
    pub(crate) fn on_path_lives(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_lives(now);
        }
    }

    /// Notes that an ack-eliciting packet is sent on the path.
    pub(crate) fn on_path_asked(&mut self, now: Time, id: PathId, owed: &[Token]) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_asked(now);
            multipath.messages += u64::from(owed.contains(&Token::Datagram));
        }
    }

    /// Notes that packets of the path were acknowledged by a frame that arrived on the path `via`.
    pub(crate) fn on_path_acked(&mut self, now: Time, id: PathId, via: PathId) {
        let oldest = self.oldest_asking(id);
        let Some(multipath) = &mut self.multipath else { return };
        multipath.health_mut(id, now).on_acked(now, oldest);
        // An acknowledgment that took another way says nothing about the way back.
        if via == id {
            self.on_path_answers(now, id);
        }
    }

    /// Returns the send time of the path's oldest ack-eliciting packet that is not acknowledged and was not
    /// sent again elsewhere.
    pub(crate) fn oldest_asking(&self, id: PathId) -> Option<Time> {
        self.multipath.as_ref()?;
        let under_way = self.list.get(id)?.recovery.under_way(SpaceId::Data, self.moved_before(id)..u64::MAX);
        let mut asking = under_way.take(MAX_OLDEST).filter(|(_, sent)| sent.ack_eliciting && !sent.mtu_probe);
        asking.next().map(|(_, sent)| sent.time)
    }

    /// Counts a DATAGRAM that arrived.
    pub(crate) fn on_message(&mut self) {
        if let Some(multipath) = &mut self.multipath {
            multipath.messages += 1;
        }
    }

    /// Returns the order below which packets of the path have been sent again elsewhere.
    pub(crate) fn moved_before(&self, id: PathId) -> u64 {
        let health = self.multipath.as_ref().and_then(|multipath| multipath.health(id));
        health.map_or(0, |health| health.moved)
    }

    /// Returns whether another path works, although this one was asked at `asked` and has not answered by
    /// `deadline`.
    pub(crate) fn has_way_out(&self, id: PathId, asked: Time, deadline: Time) -> bool {
        let Some(multipath) = &self.multipath else { return false };
        self.list.iter().filter(|other| other.id != id && other.is_working()).any(|other| {
            let rtt = other.recovery.rtt().smoothed();
            multipath.health(other.id).is_none_or(|health| health.outlives(asked, deadline, rtt))
        })
    }

    /// Returns the time at which the path will have been silent for too long; `None` if it owes no answer, or
    /// no other path works.
    pub(crate) fn silent_at(&self, path: &Path) -> Option<Time> {
        if !path.is_usable() || path.is_failing {
            return None;
        }
        let health = self.multipath.as_ref()?.health(path.id)?;
        let deadline = health.silent_at(path.recovery.pto(SpaceId::Data))?;
        let asked = health.asked()?;
        self.has_way_out(path.id, asked, deadline).then_some(deadline)
    }

    /// Asks a failing path again at once, because the peer can use it again; this end uses it as soon as it
    /// answers.
    pub(crate) fn on_peer_available(&mut self, now: Time, id: PathId) {
        let failing = self.list.get_mut(id).filter(|path| path.is_failing && path.is_usable());
        if let Some(path) = failing {
            let tuple = path.tuple;
            path.address
                .validations
                .iter_mut()
                .filter(|one| one.tuple == tuple)
                .for_each(|one| one.hurry(now));
        }
    }

    /// Takes a failing path back into use after it has shown that it works in both directions.
    pub(crate) fn on_path_answers(&mut self, now: Time, id: PathId) {
        let since = self.multipath.as_ref().and_then(|multipath| multipath.health(id)?.silent_since());
        let Some(path) = self.list.get_mut(id).filter(|path| path.is_failing && path.is_usable()) else {
            return;
        };
        path.is_failing = false;
        path.address.validations.retain(|validation| validation.purpose != Purpose::Life);
        if since.is_some_and(|since| now.saturating_since(since) >= path.recovery.outage()) {
            path.recovery.resume(now);
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_works_again(now);
        }
        self.review_status(id);
    }

    /// Returns the time at which a silent path next needs attention, or a frame is to be sent a second time.
    pub(crate) fn health_timeout(&self) -> Option<Time> {
        let again = self.multipath.as_ref()?.again.next();
        let attention = self.list.iter().filter_map(|path| self.attention(path).map(|(time, _)| time)).min();
        attention.into_iter().chain(again).min()
    }

    /// Returns the attention that the path needs first, and the time for it.
    pub(crate) fn attention(&self, path: &Path) -> Option<(Time, Attention)> {
        let config = self.config.multipath.as_ref()?;
        let health = self.multipath.as_ref()?.health(path.id)?;
        if !path.is_usable() {
            return None;
        }
        let others = self.list.iter().any(|other| other.id != path.id && other.is_working());
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

    pub(crate) fn keep_path_alive(&mut self, now: Time, id: PathId) {
        let Some(multipath) = &mut self.multipath else { return };
        multipath.health_mut(id, now).on_keep_alive(now);
        if let Some(path) = self.list.get_mut(id) {
            path.ping = true;
        }
    }
}

/// Attention that a path needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attention {
    /// It owes an answer for too long.
    Silent,
    /// It has been failing for too long.
    GiveUp,
    /// It has had no traffic for long.
    LookAfter,
    /// It is to be kept alive.
    KeepAlive,
}
