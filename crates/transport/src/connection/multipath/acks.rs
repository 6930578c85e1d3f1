//! Which path an acknowledgment takes. RFC 10069 leaves that open: a PATH_ACK may travel on any path.

use std::time::Duration;

use anabranch_wire::{PathId, Time, Writer};
use smallvec::SmallVec;

use crate::config::{AckPath, AckScope};
use crate::connection::connection::Connection;
use crate::path::Path;
use crate::space::MAX_RANGES;
use crate::token::Tokens;

/// What an acknowledgment has to gain at least on another path.
const MIN_LEAD: Duration = Duration::from_millis(1);

/// Totals of the acknowledgments of 1-RTT packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckStats {
    /// ACK and PATH_ACK frames sent.
    pub frames: u64,
    /// Ranges of packet numbers in them.
    pub ranges: u64,
    /// Frames that held as many ranges as they may ([`crate::AckConfig::max_ranges`]).
    pub full_frames: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

impl Connection {
    /// Whether an ACK has to leave on `path` now, and whether there is one that may.
    pub(in crate::connection) fn acks_on(&self, now: Time, path: &Path) -> (bool, bool) {
        if self.paths.len() == 1 {
            return (path.received.debt.is_due(now), path.received.debt.can_ack());
        }
        if self.config.ack.scope != AckScope::Path {
            return self.common_acks_on(now, path);
        }
        let copies = self.owes_ack_copy(path);
        let copies_due = copies && matches!(self.config.ack.path, AckPath::Soonest | AckPath::FastestAndAll);
        let owing = self.paths.iter().filter(|other| {
            let debt = &other.received.debt;
            debt.can_ack() || debt.is_due(now)
        });
        let carried = owing.filter(|other| self.ack_carrier(other) == path.id);
        carried.fold((copies_due, copies), |(due, any), other| {
            let debt = &other.received.debt;
            (due || debt.is_due(now), any || debt.can_ack() || debt.ack_now())
        })
    }

    /// The path that acknowledgments of packets on `path` leave on: on itself, so that the peer measures it, unless the
    /// configuration wants another one, or the path cannot be trusted with them.
    fn ack_carrier(&self, path: &Path) -> PathId {
        if let Some(other) = self.stand_in(path).or_else(|| self.scheduled_ack_path(path.id)) {
            return other;
        }
        if self.config.ack.path == AckPath::Soonest {
            return self.soonest_for(path).unwrap_or(path.id);
        }
        self.common_carrier().unwrap_or(path.id)
    }

    /// The path on which an acknowledgment of packets on `path` arrives clearly sooner than on itself.
    fn soonest_for(&self, path: &Path) -> Option<PathId> {
        if !path.recovery.rtt().has_sample() {
            return None;
        }
        // A way and the way back are taken to be equally long.
        let one_way = |path: &Path| min_rtt(path).saturating_sub(self.way_back(path));
        let own = one_way(path);
        let open = |other: &&Path| {
            other.id != path.id
                && other.is_available()
                && other.recovery.rtt().has_sample()
                && Self::is_working(other)
        };
        let others = self.paths.iter().filter(open).map(|other| (one_way(other), other.id));
        let (best, id) = others.min()?;
        (own > best + (best / 8).max(MIN_LEAD)).then_some(id)
    }

    /// How much of the path's smallest round trip was the way back. If its acknowledgments came on another path, that one's half.
    pub(super) fn way_back(&self, path: &Path) -> Duration {
        let via = path.recovery.rtt().return_path().filter(|via| *via != path.id);
        let other = via.and_then(|via| self.paths.get(via)).filter(|other| other.recovery.rtt().has_sample());
        min_rtt(other.unwrap_or(path)) / 2
    }

    /// The one path that carries all acknowledgments now; `None` if each path carries its own.
    fn common_carrier(&self) -> Option<PathId> {
        let multipath = self.multipath.as_ref()?;
        match self.config.ack.path {
            AckPath::Same | AckPath::Soonest | AckPath::All => None,
            AckPath::Fastest | AckPath::FastestAndAll => {
                let chosen =
                    multipath.ack_path.filter(|id| self.paths.get(*id).is_some_and(Self::is_working));
                chosen.or_else(|| self.fastest())
            }
            AckPath::InTurn => {
                let working = || self.paths.iter().filter(|path| Self::is_working(path) && !path.is_held);
                let next = working().find(|path| Some(path.id) > multipath.ack_path);
                next.or_else(|| working().next()).map(|path| path.id)
            }
        }
    }

    fn owes_ack_copy(&self, path: &Path) -> bool {
        self.multipath.as_ref().is_some_and(|multipath| multipath.owes_ack_copy(path.id))
    }

    /// Like [`Self::acks_on`] where the debts of all paths are one.
    fn common_acks_on(&self, now: Time, path: &Path) -> (bool, bool) {
        let (mut due, mut any) = (false, false);
        for other in self.paths.iter() {
            let debt = &other.received.debt;
            due |= debt.is_due(now) && self.common_ack_carrier(other) == path.id;
            any |= debt.can_ack() || debt.ack_now();
        }
        let copies = self.owes_ack_copy(path);
        (due || copies && self.config.ack.path == AckPath::FastestAndAll, any || copies)
    }

    /// The path that an ACK for all paths leaves on when `path` owes one.
    fn common_ack_carrier(&self, path: &Path) -> PathId {
        let chosen = self.stand_in(path).or_else(|| self.scheduled_ack_path(path.id));
        chosen.or_else(|| self.common_carrier()).unwrap_or(path.id)
    }

    /// A packet came on the path: where paths share their numbers and their debt, it counts with those of the others.
    pub(in crate::connection) fn count_together(&mut self, id: PathId) {
        let counts = self.paths.len() > 1 && self.config.ack.scope == AckScope::Connection;
        if !counts || !self.numbering.is_single() {
            return;
        }
        let unacked = self.paths.iter().map(|path| u64::from(path.received.debt.unacked())).sum::<u64>();
        let threshold = self.ack_policy.threshold;
        if let Some(path) = self.paths.get_mut(id).filter(|path| path.received.debt.unacked() > 0)
            && unacked >= threshold
        {
            path.received.debt.require_ack();
        }
    }

    /// The working path with the lowest smoothed round-trip time; one that was never measured only if there is no other.
    pub(super) fn fastest(&self) -> Option<PathId> {
        let rank = |path: &&Path| (!path.recovery.rtt().has_sample(), path.recovery.rtt().smoothed());
        self.paths.iter().filter(|path| Self::is_working(path)).min_by_key(rank).map(|path| path.id)
    }

    /// Chooses the path of acknowledgments again. Every change makes the peer measure afresh (RFC 10069, “Computing Path RTT”), so the path
    /// stays the same until another one is clearly faster.
    fn review_ack_path(&mut self) {
        let best = self.fastest();
        let smoothed = |id| {
            self.paths
                .get(id)
                .filter(|path| Self::is_working(path))
                .map(|path| path.recovery.rtt().smoothed())
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

    /// Writes the acknowledgments that a packet on `id` takes along.
    pub(in crate::connection) fn fill_acks(
        &mut self,
        now: Time,
        id: PathId,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if self.paths.len() == 1 {
            self.write_ack(now, id, writer, tokens);
            return;
        }
        if matches!(self.config.ack.path, AckPath::Fastest | AckPath::FastestAndAll) {
            self.review_ack_path();
        }
        if self.config.ack.scope != AckScope::Path {
            self.fill_common_acks(now, id, writer, tokens);
            return self.fill_ack_copies(now, id, writer, tokens);
        }
        for index in 0..self.paths.len() {
            let of = self.paths.nth(index);
            let carried = |path: &Path| {
                let debt = &path.received.debt;
                (debt.can_ack() || debt.ack_now()) && self.ack_carrier(path) == id
            };
            if self.paths.get(of).is_some_and(carried) && self.write_ack(now, of, writer, tokens) {
                self.owe_ack_copies(of, id);
            }
        }
        self.fill_ack_copies(now, id, writer, tokens);
    }

    /// Writes what all paths owe, whichever path it leaves on.
    fn fill_common_acks(&mut self, now: Time, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let owes = |path: &Path| path.received.debt.can_ack() || path.received.debt.ack_now();
        let due = self.paths.iter().any(|path| path.received.debt.is_due(now));
        if !self.paths.iter().any(owes) {
            return;
        }
        if self.numbering.is_single() {
            let newest = self.paths.iter().max_by_key(|path| path.received.debt.largest());
            if let Some(of) = newest.map(|path| path.id)
                && self.write_ack(now, of, writer, tokens)
            {
                let others = self.paths.iter_mut().filter(|path| path.id != of);
                others.for_each(|path| path.received.debt.settle_with_others());
                self.owe_ack_copies(of, id);
            }
            return;
        }
        let every = due && self.config.ack.scope == AckScope::EveryPath;
        for index in 0..self.paths.len() {
            let of = self.paths.nth(index);
            let wanted = |path: &Path| owes(path) || every && path.received.debt.largest().is_some();
            if self.paths.get(of).is_some_and(wanted) && self.write_ack(now, of, writer, tokens) {
                self.owe_ack_copies(of, id);
            }
        }
    }

    /// Writes an acknowledgment of packets on `of`, and says whether it fitted.
    fn write_ack(&mut self, now: Time, of: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) -> bool {
        let exponent = self.handshake.local_parameters.as_ref().map_or(3, |p| p.ack_delay_exponent);
        let multipath = self.multipath.is_some();
        let Some(path) = self.paths.get_mut(of) else { return false };
        let before = writer.len();
        let ranges = self.numbering.write_ack(&mut path.received, now, writer, multipath, exponent, tokens);
        let stats = &mut self.ack_stats;
        stats.frames += u64::from(ranges > 0);
        stats.ranges += ranges as u64;
        stats.full_frames += u64::from(ranges >= self.config.ack.max_ranges.clamp(2, MAX_RANGES));
        stats.bytes += (writer.len() - before) as u64;
        ranges > 0
    }

    /// An acknowledgment of packets on `of` leaves on `carrier`: the other paths repeat it, if that is wanted.
    fn owe_ack_copies(&mut self, of: PathId, carrier: PathId) {
        let all = match self.config.ack.path {
            AckPath::All | AckPath::FastestAndAll => true,
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
            path.id != carrier
                && Self::is_working(path)
                && (all || path.id == of && self.stand_in(path).is_none())
        };
        let others: SmallVec<[PathId; 4]> = self.paths.iter().filter(wanted).map(|path| path.id).collect();
        let Some(multipath) = &mut self.multipath else { return };
        multipath.ack_copies.retain(|(copied, _)| *copied != of);
        multipath.ack_copies.extend(others.into_iter().map(|other| (of, other)));
    }

    /// Repeats what other paths acknowledged since the last packet on `id`.
    fn fill_ack_copies(&mut self, now: Time, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let Some(multipath) = &mut self.multipath else { return };
        let mut copies = std::mem::take(&mut multipath.ack_copies);
        copies.retain(|(of, on)| {
            let Some(debt) =
                self.paths.get_mut(*of).filter(|_| *on == id).map(|path| &mut path.received.debt)
            else {
                return *on != id;
            };
            // What has arrived meanwhile is left to the path's own acknowledgment, which measures it.
            let reported = debt.as_reported();
            let kept = std::mem::replace(debt, reported);
            self.write_ack(now, *of, writer, tokens);
            if let Some(path) = self.paths.get_mut(*of) {
                path.received.debt = kept;
            }
            false
        });
        if let Some(multipath) = &mut self.multipath {
            multipath.ack_copies = copies;
        }
    }
}

/// The smallest round-trip time, or what is assumed before there is one.
pub(super) fn min_rtt(path: &Path) -> Duration {
    let rtt = path.recovery.rtt();
    rtt.min().min(rtt.smoothed())
}
