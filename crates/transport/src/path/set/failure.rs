//! Detection of silent paths: they are suspected, probed, and used again or abandoned.
//!
//! A path is *potentially failed* when a packet on it has been unacknowledged for a probe timeout while
//! another path works. Its data in flight is sent again on other paths at once, and a PATH_STATUS_BACKUP
//! frame informs the peer. The path is then probed with PATH_CHALLENGE until a response arrives. Unlike the
//! ACK of a PING, a response must arrive on the path itself (RFC 9000 §8.2.2), so it proves that both
//! directions work.

use anabranch_wire::{PathId, SpaceId, Time};

use super::Multipath;
use super::PathSet;
use crate::path::{Health, Path, Purpose};
use crate::token::Token;

/// Maximum number of packets in flight that are searched for the oldest ack-eliciting one. ACK-only packets
/// may precede it, but only a limited number, because after some of them a PING is added.
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

    /// Removes the health of a path whose state is removed.
    pub(crate) fn forget_health(&mut self, path: PathId) {
        self.health.retain(|health| health.path != path);
    }
}

impl PathSet {
    /// Records that an authentic packet arrived on the path.
    pub(crate) fn on_path_heard(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_heard(now);
        }
    }

    /// Records that an ack-eliciting packet arrived on the path. This postpones the time at which the path
    /// counts as silent, because the peer's acknowledgments may wait behind the peer's data on the path. A
    /// packet with only acknowledgments postpones nothing, because it may acknowledge only packets of other
    /// paths.
    pub(crate) fn on_path_lives(&mut self, now: Time, id: PathId) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_lives(now);
        }
    }

    /// Records that an ack-eliciting packet is sent on the path.
    pub(crate) fn on_path_asked(&mut self, now: Time, id: PathId, owed: &[Token]) {
        if let Some(multipath) = &mut self.multipath {
            multipath.health_mut(id, now).on_asked(now);
            multipath.messages += u64::from(owed.contains(&Token::Datagram));
        }
    }

    /// Records that packets of the path were acknowledged by a frame that arrived on the path `via`.
    pub(crate) fn on_path_acked(&mut self, now: Time, id: PathId, via: PathId) {
        let oldest = self.oldest_asking(id);
        let Some(multipath) = &mut self.multipath else { return };
        multipath.health_mut(id, now).on_acked(now, oldest);
        // An acknowledgment on another path proves nothing about the return direction of this one.
        if via == id {
            self.on_path_answers(now, id);
        }
    }

    /// Returns the send time of the path's oldest ack-eliciting packet that is unacknowledged and was not
    /// sent again on another path.
    pub(crate) fn oldest_asking(&self, id: PathId) -> Option<Time> {
        self.multipath.as_ref()?;
        let under_way = self.list.get(id)?.recovery.under_way(SpaceId::Data, self.moved_before(id)..u64::MAX);
        let mut asking = under_way.take(MAX_OLDEST).filter(|(_, sent)| sent.ack_eliciting && !sent.mtu_probe);
        asking.next().map(|(_, sent)| sent.time)
    }

    /// Counts a received DATAGRAM frame.
    pub(crate) fn on_message(&mut self) {
        if let Some(multipath) = &mut self.multipath {
            multipath.messages += 1;
        }
    }

    /// Returns the order below which packets of the path have been sent again on other paths.
    pub(crate) fn moved_before(&self, id: PathId) -> u64 {
        let health = self.multipath.as_ref().and_then(|multipath| multipath.health(id));
        health.map_or(0, |health| health.moved)
    }

    /// Returns whether another working path is more likely to work than this one (`Health::outlives`). This
    /// path's oldest unacknowledged packet was sent at `asked`, and the path counts as silent at `deadline`.
    pub(crate) fn has_way_out(&self, id: PathId, asked: Time, deadline: Time) -> bool {
        let Some(multipath) = &self.multipath else { return false };
        self.list.iter().filter(|other| other.id != id && other.is_working()).any(|other| {
            let rtt = other.recovery.rtt().smoothed();
            multipath.health(other.id).is_none_or(|health| health.outlives(asked, deadline, rtt))
        })
    }

    /// Returns the time at which the path counts as silent; `None` if no acknowledgment is due, or if no
    /// other path is more likely to work.
    pub(crate) fn silent_at(&self, path: &Path) -> Option<Time> {
        if !path.is_usable() || path.is_failing {
            return None;
        }
        let health = self.multipath.as_ref()?.health(path.id)?;
        let deadline = health.silent_at(path.recovery.pto(SpaceId::Data))?;
        let asked = health.asked()?;
        self.has_way_out(path.id, asked, deadline).then_some(deadline)
    }

    /// Probes a failing path at once, because the peer has declared it available. The path is used again as
    /// soon as the peer responds.
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

    /// Uses a failing path again, because a response or an acknowledgment has arrived on it.
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

    /// Returns the next time at which a path needs an action, or at which a repeated frame is sent once more.
    pub(crate) fn health_timeout(&self) -> Option<Time> {
        let again = self.multipath.as_ref()?.again.next();
        let attention = self.list.iter().filter_map(|path| self.attention(path).map(|(time, _)| time)).min();
        attention.into_iter().chain(again).min()
    }

    /// Returns the first action that the path needs, with its time.
    pub(crate) fn attention(&self, path: &Path) -> Option<(Time, Attention)> {
        let config = self.config.multipath.as_ref()?;
        let health = self.multipath.as_ref()?.health(path.id)?;
        if !path.is_usable() {
            return None;
        }
        let others = self.list.iter().any(|other| other.id != path.id && other.is_working());
        let give_up = config.path_idle_timeout.filter(|_| others);
        if path.is_failing {
            // The path may have moved, or moved back, since it began to fail.
            if !path.is_probed() {
                return Some((health.failing_since, Attention::Probe));
            }
            // Data was sent here while no other path worked.
            let is_free =
                |other: &Path| other.id != path.id && other.is_working() && !other.is_socket_blocked;
            if self.list.iter().any(is_free) && path.recovery.next_order(SpaceId::Data) > health.moved {
                return Some((health.failing_since, Attention::MoveRest));
            }
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

/// Action that a path needs because of its health.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attention {
    /// Acknowledgment overdue: the path begins to fail.
    Silent,
    /// Failing, and not probed at its addresses of now.
    Probe,
    /// Failing, and used after that: its data is sent again on another path that works now.
    MoveRest,
    /// Failing for too long: the path is abandoned.
    GiveUp,
    /// No traffic for a long time: the path is probed.
    LookAfter,
    /// Keep-alive PING due.
    KeepAlive,
}
