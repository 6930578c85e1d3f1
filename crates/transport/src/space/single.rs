//! One packet number space for all paths.
//!
//! Each packet takes the next number of the space, and the next order of its path. Blocks of consecutive
//! packets of one path map numbers to orders, until all their packets are acknowledged or lost.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use anabranch_recovery::SharedEcn;
use anabranch_wire::{AckRanges, PathId};
use smallvec::SmallVec;

use super::per_path::PerPath;
use super::{NumberSequence, Numbered, Numbers};
use crate::random::Random;
use crate::ranges::RangeSet;

/// Maximum number of blocks that are remembered. A block is dropped when its packets and all older ones are
/// acknowledged or lost, so one packet on a slow path may delay this for many blocks. Beyond the maximum the
/// oldest blocks are dropped, and a later acknowledgment of their packets has no effect.
pub(crate) const MAX_BLOCKS: usize = 1 << 14;

/// Maximum number of skipped numbers that are remembered, to detect a peer that acknowledges packets it
/// cannot have received (RFC 9000 §21.4).
pub(crate) const MAX_SKIPPED: usize = 32;

/// Maximum number of ranges of acknowledged numbers that are remembered. A dropped range is processed again
/// when a frame reports it again.
pub(crate) const MAX_NAMED: usize = 1 << 12;

/// Ranges of numbers, descending. Four are stored inline, because most ACK frames report few ranges that
/// earlier frames have not reported.
pub(crate) type Ranges = SmallVec<[RangeInclusive<u64>; 4]>;

/// Maximum number of packets that may arrive on other paths while a packet is in flight on a slow path. Twice
/// this distance needs a packet number of three bytes.
const MAX_OVERTAKING: u64 = 1 << 22;

/// Consecutive packet numbers with consecutive orders on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberBlock {
    first: u64,
    order: u64,
    len: u32,
    path: PathId,
}

impl NumberBlock {
    /// Returns the number after the last one.
    fn end(&self) -> u64 {
        self.first + u64::from(self.len)
    }
}

/// Packet numbers of a connection whose paths share them, in both directions.
#[derive(Debug)]
pub(crate) struct Single {
    line: NumberSequence,
    /// Blocks in ascending order of their numbers, without overlap.
    blocks: VecDeque<NumberBlock>,
    /// Newest skipped numbers, ascending.
    skipped: VecDeque<u64>,
    /// Numbers whose acknowledgment has no further effect: those that earlier ACK frames reported, and all
    /// sent numbers below `done`.
    named: RangeSet,
    done: u64,
    /// Order of the next packet on each path.
    orders: Vec<(PathId, u64)>,
    /// Packet numbers received on all paths.
    pub(super) received: Numbers,
    /// Evaluation of the ECN counts that the peer reports for this endpoint's packets.
    pub(super) ecn: SharedEcn,
}

impl Single {
    /// Continues the numbers of path 0, the only path so far, which has sent `marked` packets with ECT(0).
    pub(super) fn new(before: PerPath, received: Numbers, marked: u64) -> Self {
        let line = before.into_first();
        let sent = line.next;
        let len = u32::try_from(sent).unwrap_or(u32::MAX);
        let block = NumberBlock {
            first: sent - u64::from(len),
            order: sent - u64::from(len),
            len,
            path: PathId::ZERO,
        };
        Self {
            line,
            blocks: (len > 0).then_some(block).into_iter().collect(),
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
        match self.blocks.back_mut() {
            // A path's orders are consecutive, so only the numbers need to be compared.
            Some(block) if block.path == path && block.end() == number && block.len < u32::MAX => {
                block.len += 1;
            }
            _ => {
                if self.blocks.len() == MAX_BLOCKS {
                    self.blocks.pop_front();
                }
                self.blocks.push_back(NumberBlock { first: number, order, len: 1, path });
            }
        }
    }

    /// Returns the distance over which the encoding of `number` must be unambiguous.
    pub(super) fn unacked(&self, number: u64) -> u64 {
        anabranch_wire::unacked_numbers(number, self.line.largest_acked).max(MAX_OVERTAKING)
    }

    pub(super) fn on_acked(&mut self, largest: u64) {
        self.line.largest_acked = self.line.largest_acked.max(Some(largest));
    }

    /// Returns the parts of an ACK frame's `ranges` that no earlier frame has reported, in descending order.
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
            // The next known range may reach into this range from below.
            let low = named.peek().map_or(low, |known| known.end.max(low));
            if low < end {
                news.push(low..=end - 1);
            }
        }
        news
    }

    /// Marks the ranges of `news` as reported, so that they are no longer new.
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

    /// Returns the path on which `number` was sent; `None` if it is no longer remembered.
    pub(super) fn path_of(&self, number: u64) -> Option<PathId> {
        let at = self.blocks.partition_point(|block| block.end() <= number);
        self.blocks.get(at).filter(|block| block.first <= number).map(|block| block.path)
    }

    /// Returns the number of the packet at `order` on `path`; `None` if it is no longer remembered.
    pub(super) fn number_of(&self, path: PathId, order: u64) -> Option<u64> {
        let (mut from, mut to) = (0, self.blocks.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            // The search compares only the path's own blocks, whose orders ascend.
            let own = self.blocks.range(from..=middle).rposition(|block| block.path == path);
            match own.map(|at| (from + at, self.blocks[from + at])) {
                Some((at, block)) if block.order > order => to = at,
                Some((_, block)) if order - block.order < u64::from(block.len) => {
                    return Some(block.first + (order - block.order));
                }
                _ => from = middle + 1,
            }
        }
        None
    }

    /// Returns the order of the first packet on `path` whose number is at least `number`; the path's next
    /// order if no such packet was sent.
    pub(super) fn order_from(&self, path: PathId, number: u64) -> u64 {
        let at = self.blocks.partition_point(|block| block.end() <= number);
        let block = self.blocks.range(at..).find(|block| block.path == path);
        block.map_or(self.order(path), |block| block.order + number.saturating_sub(block.first))
    }

    /// Returns the orders on `path` of the packets in `ranges`, newest first. `ranges` must descend.
    pub(super) fn orders<I: IntoIterator<Item = RangeInclusive<u64>>>(
        &self,
        path: PathId,
        ranges: I,
    ) -> RunOrders<'_, I::IntoIter> {
        RunOrders { blocks: &self.blocks, path, ranges: ranges.into_iter(), range: None }
    }

    /// Drops the oldest blocks whose packets are all acknowledged or permanently lost. `done_below` returns
    /// the order below which this is true of all packets of a path; `None` if the path is closed.
    pub(super) fn forget_done(&mut self, done_below: impl Fn(PathId) -> Option<u64>) {
        while let Some(block) = self.blocks.front() {
            if done_below(block.path).is_some_and(|order| block.order + u64::from(block.len) > order) {
                break;
            }
            self.blocks.pop_front();
        }
        let open = self.blocks.front().map_or(self.line.next, |block| block.first);
        let newly = self.done..open.max(self.done);
        self.done = newly.end;
        if !newly.is_empty() {
            self.named.insert(newly.clone());
            let skipped = self.skipped.iter().filter(|number| newly.contains(number));
            skipped.for_each(|number| _ = self.named.remove(*number..*number + 1));
        }
    }

    /// Removes a closed path. [`Self::forget_done`] drops its blocks once no older block remains.
    pub(super) fn forget(&mut self, path: PathId) {
        self.orders.retain(|(id, _)| *id != path);
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.blocks.len(), self.skipped.len())
    }
}

/// Iterator over orders on one path, in descending ranges.
#[derive(Clone, Debug)]
pub(crate) struct RunOrders<'a, I> {
    blocks: &'a VecDeque<NumberBlock>,
    path: PathId,
    ranges: I,
    /// Rest of the current range: its two ends, and the number of blocks that begin at or below the upper one.
    range: Option<(u64, u64, usize)>,
}

impl<I: Iterator<Item = RangeInclusive<u64>>> Iterator for RunOrders<'_, I> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        loop {
            let Some((low, high, at)) = self.range.take() else {
                let (low, high) = self.ranges.next()?.into_inner();
                let at = self.blocks.partition_point(|block| block.first <= high);
                self.range = (at > 0).then_some((low, high, at));
                continue;
            };
            let block = self.blocks[at - 1];
            if block.end() <= low {
                continue;
            }
            if block.first > low && at > 1 {
                self.range = Some((low, high, at - 1));
            }
            if block.path == self.path && block.first <= high {
                let first = block.order + (low.max(block.first) - block.first);
                let last = block.order + (high.min(block.end() - 1) - block.first);
                return Some(first..=last);
            }
        }
    }
}

#[cfg(test)]
mod tests;
