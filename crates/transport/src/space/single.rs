//! One packet number space for all paths.
//!
//! Each packet takes the next number of the one line, and the next order of its path. Which is which is
//! remembered in runs of consecutive packets of one path, until everything in them is settled.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use anabranch_recovery::SharedEcn;
use anabranch_wire::{AckRanges, PathId};
use smallvec::SmallVec;

use super::per_path::PerPath;
use super::{Line, Numbered, Numbers};
use crate::random::Random;
use crate::ranges::RangeSet;

/// Runs remembered. They outlive what is under way only as long as an older packet is, on a slow path for
/// instance; if that takes so long that the bound is reached, the oldest are forgotten, and an acknowledgment
/// that comes after all is too late.
pub(crate) const MAX_RUNS: usize = 1 << 14;

/// Skipped numbers remembered, to catch a peer that acknowledges what it cannot have received (RFC 9000
/// §21.4).
pub(crate) const MAX_SKIPPED: usize = 32;

/// Ranges of acknowledged numbers remembered. What is forgotten is looked at again when a frame names it
/// again.
pub(crate) const MAX_NAMED: usize = 1 << 12;

/// Ranges of numbers, descending; most ACK frames say little that others have not said.
pub(crate) type Ranges = SmallVec<[RangeInclusive<u64>; 4]>;

/// Numbers that may arrive between the sending of a packet on a slow path and its arrival; a packet number is
/// encoded unambiguously over twice that distance, in three bytes.
const MAX_OVERTAKING: u64 = 1 << 22;

/// Consecutive numbers that took consecutive orders on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    order: u64,
    len: u32,
    path: PathId,
}

impl Run {
    /// Returns the number after the last one.
    fn end(&self) -> u64 {
        self.first + u64::from(self.len)
    }
}

/// The packet numbers of a connection whose paths share them, in both directions.
#[derive(Debug)]
pub(crate) struct Single {
    line: Line,
    /// By number, without overlap.
    runs: VecDeque<Run>,
    /// The newest numbers that were left out, ascending.
    skipped: VecDeque<u64>,
    /// Numbers of which an ACK frame says nothing new: those that others have named, and all below `settled`
    /// that were sent.
    named: RangeSet,
    done: u64,
    /// The next order of each path.
    orders: Vec<(PathId, u64)>,
    /// Packet numbers received on all paths.
    pub(super) received: Numbers,
    /// Evaluation of the ECN counts that the peer reports for this endpoint's packets.
    pub(super) ecn: SharedEcn,
}

impl Single {
    /// Goes on with the numbers of path 0, the only one so far, which has sent `marked` packets with ECT(0).
    pub(super) fn new(before: PerPath, received: Numbers, marked: u64) -> Self {
        let line = before.into_first();
        let sent = line.next;
        let len = u32::try_from(sent).unwrap_or(u32::MAX);
        let run = Run { first: sent - u64::from(len), order: sent - u64::from(len), len, path: PathId::ZERO };
        Self {
            line,
            runs: (len > 0).then_some(run).into_iter().collect(),
            skipped: VecDeque::new(),
            named: RangeSet::default(),
            done: 0,
            orders: vec![(PathId::ZERO, sent)],
            received,
            ecn: SharedEcn::new(marked),
        }
    }

    fn order(&self, path: PathId) -> u64 {
        self.orders.iter().find(|(id, _)| *id == path).map_or(0, |(_, order)| *order)
    }

    pub(super) fn next(
        &mut self,
        path: PathId,
        random: &mut Random,
        window_packets: Option<u64>,
    ) -> Numbered {
        let next = self.line.next;
        self.line.skip_if_due(random, window_packets);
        if self.line.next > next {
            if self.skipped.len() == MAX_SKIPPED
                && let Some(forgotten) = self.skipped.pop_front().filter(|number| *number < self.done)
            {
                self.named.insert(forgotten..forgotten + 1);
            }
            self.skipped.push_back(next);
        }
        Numbered { number: self.line.next, order: self.order(path) }
    }

    pub(super) fn commit(&mut self, path: PathId) {
        let (number, order) = (self.line.next, self.order(path));
        self.line.next += 1;
        match self.orders.iter_mut().find(|(id, _)| *id == path) {
            Some((_, next)) => *next += 1,
            None => self.orders.push((path, 1)),
        }
        match self.runs.back_mut() {
            // The orders of a path follow each other, so that only the numbers need to be looked at.
            Some(run) if run.path == path && run.end() == number && run.len < u32::MAX => run.len += 1,
            _ => {
                if self.runs.len() == MAX_RUNS {
                    self.runs.pop_front();
                }
                self.runs.push_back(Run { first: number, order, len: 1, path });
            }
        }
    }

    /// Returns the distance that the encoding of `number` has to cover.
    pub(super) fn unacked(&self, number: u64) -> u64 {
        anabranch_wire::unacked_numbers(number, self.line.largest_acked).max(MAX_OVERTAKING)
    }

    pub(super) fn on_acked(&mut self, largest: u64) {
        self.line.largest_acked = self.line.largest_acked.max(Some(largest));
    }

    /// Returns the ranges that `ranges` of an ACK frame name and no earlier frame has named, descending.
    pub(super) fn news(&self, ranges: AckRanges<'_>) -> Ranges {
        let mut news = Ranges::new();
        let mut named = self.named.iter().rev().peekable();
        for range in ranges {
            let (low, mut end) = (*range.start(), *range.end() + 1);
            while named.next_if(|known| known.start >= end).is_some() {}
            while let Some(known) = named.next_if(|known| known.start > low) {
                if known.end < end {
                    news.push(known.end..=end - 1);
                }
                end = known.start;
            }
            // The next one may go on below this range.
            let low = named.peek().map_or(low, |known| known.end.max(low));
            if low < end {
                news.push(low..=end - 1);
            }
        }
        news
    }

    /// Marks the ranges of `news` as named, so that they are no longer new.
    pub(super) fn on_named(&mut self, news: &[RangeInclusive<u64>]) {
        for range in news {
            self.named.insert(*range.start()..*range.end() + 1);
        }
        while self.named.len() > MAX_NAMED {
            self.named.pop_min();
        }
    }

    /// Returns a number in `ranges` that was never sent, if one is known.
    pub(super) fn unsent(&self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Option<u64> {
        ranges.into_iter().find_map(|range| {
            let (low, high) = range.into_inner();
            if high >= self.line.next {
                return Some(high);
            }
            let at = self.skipped.partition_point(|skipped| *skipped < low);
            self.skipped.get(at).copied().filter(|skipped| *skipped <= high)
        })
    }

    /// Returns the path on which `number` was sent; `None` once that is forgotten.
    pub(super) fn path_of(&self, number: u64) -> Option<PathId> {
        let at = self.runs.partition_point(|run| run.end() <= number);
        self.runs.get(at).filter(|run| run.first <= number).map(|run| run.path)
    }

    /// Returns the number of the packet at `order` on `path`; `None` once that is forgotten.
    pub(super) fn number_of(&self, path: PathId, order: u64) -> Option<u64> {
        let (mut from, mut to) = (0, self.runs.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            // Only the path's own runs tell which way to go; their orders ascend.
            let own = self.runs.range(from..=middle).rposition(|run| run.path == path);
            match own.map(|at| (from + at, self.runs[from + at])) {
                Some((at, run)) if run.order > order => to = at,
                Some((_, run)) if order - run.order < u64::from(run.len) => {
                    return Some(run.first + (order - run.order));
                }
                _ => from = middle + 1,
            }
        }
        None
    }

    /// Returns the order of the first packet on `path` whose number is at least `number`; the path's next
    /// order if there is none.
    pub(super) fn order_from(&self, path: PathId, number: u64) -> u64 {
        let at = self.runs.partition_point(|run| run.end() <= number);
        let run = self.runs.range(at..).find(|run| run.path == path);
        run.map_or(self.order(path), |run| run.order + number.saturating_sub(run.first))
    }

    /// Returns the orders on `path` of the packets in `ranges`, newest first; `ranges` descend.
    pub(super) fn orders<I: IntoIterator<Item = RangeInclusive<u64>>>(
        &self,
        path: PathId,
        ranges: I,
    ) -> RunOrders<'_, I::IntoIter> {
        RunOrders { runs: &self.runs, path, ranges: ranges.into_iter(), range: None }
    }

    /// Forgets runs of which nothing is open any more: of each path, `done_below` tells the oldest order that
    /// may still change, `None` if the path is gone.
    pub(super) fn forget_done(&mut self, done_below: impl Fn(PathId) -> Option<u64>) {
        while let Some(run) = self.runs.front() {
            if done_below(run.path).is_some_and(|order| run.order + u64::from(run.len) > order) {
                break;
            }
            self.runs.pop_front();
        }
        let open = self.runs.front().map_or(self.line.next, |run| run.first);
        let newly = self.done..open.max(self.done);
        self.done = newly.end;
        if !newly.is_empty() {
            self.named.insert(newly.clone());
            let skipped = self.skipped.iter().filter(|number| newly.contains(number));
            skipped.for_each(|number| _ = self.named.remove(*number..*number + 1));
        }
    }

    /// Forgets a path that is gone; its packets are forgotten one by one as the packet numbers advance.
    pub(super) fn forget(&mut self, path: PathId) {
        self.orders.retain(|(id, _)| *id != path);
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.runs.len(), self.skipped.len())
    }
}

/// Orders on one path, in descending ranges.
#[derive(Clone, Debug)]
pub(crate) struct RunOrders<'a, I> {
    runs: &'a VecDeque<Run>,
    path: PathId,
    ranges: I,
    /// Rest of the current range: its two ends, and the number of runs that begin at or below the upper one.
    range: Option<(u64, u64, usize)>,
}

impl<I: Iterator<Item = RangeInclusive<u64>>> Iterator for RunOrders<'_, I> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        loop {
            let Some((low, high, at)) = self.range.take() else {
                let (low, high) = self.ranges.next()?.into_inner();
                let at = self.runs.partition_point(|run| run.first <= high);
                self.range = (at > 0).then_some((low, high, at));
                continue;
            };
            let run = self.runs[at - 1];
            if run.end() <= low {
                continue;
            }
            if run.first > low && at > 1 {
                self.range = Some((low, high, at - 1));
            }
            if run.path == self.path && run.first <= high {
                let first = run.order + (low.max(run.first) - run.first);
                let last = run.order + (high.min(run.end() - 1) - run.first);
                return Some(first..=last);
            }
        }
    }
}

#[cfg(test)]
mod tests;
