//! Choice of the path on which an acknowledgment is sent. RFC 10069 permits any path for a PATH_ACK.

use std::time::Duration;

use anabranch_wire::{PathId, Time};
use smallvec::SmallVec;

use super::PathSet;
use crate::config::{AckPath, AckScope};
use crate::path::Path;

/// Minimum lead: another path carries an acknowledgment only if the acknowledgment arrives sooner there by at
/// least this much.
pub(crate) const MIN_LEAD: Duration = Duration::from_millis(1);

/// Totals of the acknowledgments of 1-RTT packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckStats {
    /// ACK and PATH_ACK frames sent.
    pub frames: u64,
    /// Ranges of packet numbers in these frames.
    pub ranges: u64,
    /// Frames with the maximum number of ranges ([`crate::AckConfig::max_ranges`]).
    pub full_frames: u64,
    /// Total size of the frames in bytes.
    pub bytes: u64,
}

impl PathSet {
    /// Returns whether an ACK must be sent on `path` now, and whether one may be sent.
    pub(crate) fn acks_on(&self, now: Time, path: &Path) -> (bool, bool) {
        if self.list.len() == 1 {
            return (path.received.ack.is_due(now), path.received.ack.can_ack());
        }
        if self.config.ack.scope != AckScope::Path {
            return self.common_acks_on(now, path);
        }
        let copies = self.owes_ack_copy(path);
        let copies_due = copies && matches!(self.config.ack.path, AckPath::Soonest | AckPath::FastestAndAll);
        let owing = self.list.iter().filter(|other| {
            let ack = &other.received.ack;
            ack.can_ack() || ack.is_due(now)
        });
        let carried = owing.filter(|other| self.ack_carrier(other) == path.id);
        carried.fold((copies_due, copies), |(due, any), other| {
            let ack = &other.received.ack;
            (due || ack.is_due(now), any || ack.can_ack() || ack.ack_now())
        })
    }

    /// Returns the path on which acknowledgments of packets on `path` are sent. It is `path` itself, so that
    /// the peer can measure it, unless the configuration demands another path or [`Self::stand_in`] returns
    /// one.
    pub(crate) fn ack_carrier(&self, path: &Path) -> PathId {
        if let Some(other) = self.stand_in(path).or_else(|| self.scheduled_ack_path(path.id)) {
            return other;
        }
        if self.config.ack.path == AckPath::Soonest {
            return self.soonest_for(path).unwrap_or(path.id);
        }
        self.common_carrier().unwrap_or(path.id)
    }

    /// Returns the path on which an acknowledgment of packets on `path` arrives clearly sooner than on `path`
    /// itself.
    pub(crate) fn soonest_for(&self, path: &Path) -> Option<PathId> {
        if !path.recovery.rtt().has_sample() {
            return None;
        }
        // Both directions of a path are assumed to be equally long.
        let one_way = |path: &Path| min_rtt(path).saturating_sub(self.return_delay(path));
        let own = one_way(path);
        let open = |other: &&Path| {
            other.id != path.id
                && other.is_available()
                && other.recovery.rtt().has_sample()
                && other.is_working()
        };
        let others = self.list.iter().filter(open).map(|other| (one_way(other), other.id));
        let (best, id) = others.min()?;
        (own > best + (best / 8).max(MIN_LEAD)).then_some(id)
    }

    /// Estimates the one-way delay of the path's acknowledgments: half the minimum RTT of the path on which
    /// they return.
    pub(crate) fn return_delay(&self, path: &Path) -> Duration {
        let via = path.recovery.rtt().return_path().filter(|via| *via != path.id);
        let other = via.and_then(|via| self.list.get(via)).filter(|other| other.recovery.rtt().has_sample());
        min_rtt(other.unwrap_or(path)) / 2
    }

    /// Returns the path that carries all acknowledgments now; `None` if each path carries its own.
    pub(crate) fn common_carrier(&self) -> Option<PathId> {
        let multipath = self.multipath.as_ref()?;
        match self.config.ack.path {
            AckPath::Same | AckPath::Soonest | AckPath::All => None,
            AckPath::Fastest | AckPath::FastestAndAll | AckPath::FastestAndOpportunistic => {
                let chosen = multipath.ack_path.filter(|id| self.list.get(*id).is_some_and(Path::is_working));
                chosen.or_else(|| self.fastest())
            }
            AckPath::InTurn => {
                let working = || self.list.iter().filter(|path| path.is_working() && !path.is_socket_blocked);
                let next = working().find(|path| Some(path.id) > multipath.ack_path);
                next.or_else(|| working().next()).map(|path| path.id)
            }
        }
    }

    pub(crate) fn owes_ack_copy(&self, path: &Path) -> bool {
        self.multipath.as_ref().is_some_and(|multipath| multipath.owes_ack_copy(path.id))
    }

    /// Returns the results of [`Self::acks_on`] if one ACK covers the packets of all paths.
    pub(crate) fn common_acks_on(&self, now: Time, path: &Path) -> (bool, bool) {
        let (mut due, mut any) = (false, false);
        for other in self.list.iter() {
            let ack = &other.received.ack;
            due |= ack.is_due(now) && self.common_ack_carrier(other) == path.id;
            any |= ack.can_ack() || ack.ack_now();
        }
        let copies = self.owes_ack_copy(path);
        (due || copies && self.config.ack.path == AckPath::FastestAndAll, any || copies)
    }

    /// Returns the path on which an ACK for all paths is sent when packets of `path` must be acknowledged.
    pub(crate) fn common_ack_carrier(&self, path: &Path) -> PathId {
        let chosen = self.stand_in(path).or_else(|| self.scheduled_ack_path(path.id));
        chosen.or_else(|| self.common_carrier()).unwrap_or(path.id)
    }

    /// Returns the working path with the lowest smoothed round-trip time. A path without an RTT sample is
    /// chosen only if no other path works.
    pub(crate) fn fastest(&self) -> Option<PathId> {
        let rank = |path: &&Path| (!path.recovery.rtt().has_sample(), path.recovery.rtt().smoothed());
        self.list.iter().filter(|path| path.is_working()).min_by_key(rank).map(|path| path.id)
    }

    /// Chooses anew the path that carries all acknowledgments. Every change makes the peer start new RTT
    /// measurements (RFC 10069, “Computing Path RTT”), so the path stays the same until another one is
    /// clearly faster.
    pub(crate) fn review_ack_path(&mut self) {
        let best = self.fastest();
        let smoothed = |id| {
            self.list.get(id).filter(|path| path.is_working()).map(|path| path.recovery.rtt().smoothed())
        };
        let slower = |current: Duration, best: Duration| current > best + best / 8;
        let current = self.multipath.as_ref().and_then(|multipath| multipath.ack_path);
        let chosen = match (current.and_then(smoothed), best.and_then(smoothed)) {
            (Some(current_rtt), Some(best_rtt)) if !slower(current_rtt, best_rtt) => current,
            _ => best,
        };
        if let Some(multipath) = &mut self.multipath {
            multipath.ack_path = chosen;
        }
    }

    /// Records that an acknowledgment of packets on `of` is sent on `carrier`, and schedules its copies on
    /// other paths if the configuration demands them.
    pub(crate) fn owe_ack_copies(&mut self, of: PathId, carrier: PathId) {
        let all = match self.config.ack.path {
            AckPath::All | AckPath::FastestAndAll | AckPath::FastestAndOpportunistic => true,
            AckPath::Soonest => false,
            AckPath::InTurn => {
                if let Some(multipath) = &mut self.multipath {
                    multipath.ack_path = Some(carrier);
                }
                return;
            }
            AckPath::Same | AckPath::Fastest => return,
        };
        let wanted = |path: &&Path| {
            path.id != carrier && path.is_working() && (all || path.id == of && self.stand_in(path).is_none())
        };
        let others: SmallVec<[PathId; 4]> = self.list.iter().filter(wanted).map(|path| path.id).collect();
        let Some(multipath) = &mut self.multipath else { return };
        multipath.ack_copies.retain(|(copied, _)| *copied != of);
        multipath.ack_copies.extend(others.into_iter().map(|other| (of, other)));
    }
}

/// Returns the smallest round-trip time, or the assumed one before the first sample.
pub(crate) fn min_rtt(path: &Path) -> Duration {
    let rtt = path.recovery.rtt();
    rtt.min().min(rtt.smoothed())
}
