//! Sets of integers as sorted, disjoint ranges: received bytes, acknowledged bytes, packet numbers.

use std::collections::VecDeque;
use std::ops::Range;

/// A set of `u64` kept as ascending ranges that neither overlap nor touch.
///
/// Work at either end takes constant time, which is where nearly all of it happens: new data arrives at the high end, gaps
/// close at the low end. In the middle an insertion costs a binary search and a move of the shorter side. How many ranges a
/// peer may cause is for the caller to bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
}

impl RangeSet {
    /// Whether nothing is in the set.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Largest value.
    #[inline(always)]
    pub(crate) fn max(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.end - 1)
    }

    /// The lowest range.
    #[inline]
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// Whether `value` is in the set.
    #[inline(always)]
    pub(crate) fn contains(&self, value: u64) -> bool {
        // Most questions are about what is new, or in the highest range.
        match self.ranges.back() {
            Some(last) if value < last.start => self.contains_below(value),
            Some(last) => value < last.end,
            None => false,
        }
    }

    fn contains_below(&self, value: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= value);
        self.ranges.get(at).is_some_and(|range| range.start <= value)
    }

    /// The range that holds `value`.
    #[inline]
    pub(crate) fn range_of(&self, value: u64) -> Option<Range<u64>> {
        let at = self.ranges.partition_point(|range| range.end <= value);
        self.ranges.get(at).filter(|range| range.start <= value).cloned()
    }

    /// The ranges, ascending; `rev()` gives them descending.
    pub(crate) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + Clone + '_ {
        self.ranges.iter().cloned()
    }

    /// Takes out the lowest range.
    #[inline]
    pub(crate) fn pop_min(&mut self) -> Option<Range<u64>> {
        self.ranges.pop_front()
    }

    /// Removes everything and gives back the memory.
    pub(crate) fn clear(&mut self) {
        self.ranges = VecDeque::new();
    }

    /// Adds `range` and says how many of its values are new.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        match self.ranges.back_mut() {
            Some(last) if range.start < last.start => self.insert_below(range),
            Some(last) if range.start <= last.end => {
                let added = range.end.saturating_sub(last.end);
                last.end += added;
                added
            }
            _ => {
                let added = range.end - range.start;
                self.ranges.push_back(range);
                added
            }
        }
    }

    /// Adds a range that starts below the highest one.
    fn insert_below(&mut self, range: Range<u64>) -> u64 {
        let first = self.ranges.partition_point(|other| other.end < range.start);
        let after = self.ranges.partition_point(|other| other.start <= range.end);
        let len = range.end - range.start;
        if first == after {
            self.ranges.insert(first, range);
            return len;
        }
        let known = self.overlap(first..after, &range);
        let end = self.ranges[after - 1].end.max(range.end);
        let merged = &mut self.ranges[first];
        merged.start = merged.start.min(range.start);
        merged.end = end;
        self.ranges.drain(first + 1..after);
        len - known
    }

    /// Takes `range` out and says how many of its values were in the set.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        let first = self.ranges.partition_point(|other| other.end <= range.start);
        let after = self.ranges.partition_point(|other| other.start < range.end);
        if range.is_empty() || first >= after {
            return 0;
        }
        let removed = self.overlap(first..after, &range);
        let left = self.ranges[first].start..range.start;
        let right = range.end..self.ranges[after - 1].end;
        match (left.is_empty(), right.is_empty()) {
            (true, true) => drop(self.ranges.drain(first..after)),
            (false, true) => {
                self.ranges[first] = left;
                self.ranges.drain(first + 1..after);
            }
            (true, false) => {
                self.ranges[after - 1] = right;
                self.ranges.drain(first..after - 1);
            }
            (false, false) if after - first == 1 => {
                self.ranges[first] = right;
                self.ranges.insert(first, left);
            }
            (false, false) => {
                self.ranges[first] = left;
                self.ranges[after - 1] = right;
                self.ranges.drain(first + 1..after - 1);
            }
        }
        removed
    }

    /// The parts of `within` that are in the set, ascending.
    pub(crate) fn within(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= within.start);
        let inside = self.ranges.range(first..).take_while(move |range| range.start < within.end);
        inside.map(move |range| range.start.max(within.start)..range.end.min(within.end))
    }

    /// The parts of `within` that are not in the set, ascending.
    pub(crate) fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= within.start);
        let mut ranges = self.ranges.range(first..);
        let mut next = within.start;
        std::iter::from_fn(move || {
            while next < within.end {
                let gap = match ranges.next() {
                    Some(range) if range.start < within.end => {
                        next..std::mem::replace(&mut next, range.end).max(range.start)
                    }
                    _ => std::mem::replace(&mut next, within.end)..within.end,
                };
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// How many values of `range` the ranges at `indices` hold; all of them touch it.
    fn overlap(&self, indices: Range<usize>, range: &Range<u64>) -> u64 {
        let shared =
            |other: &Range<u64>| other.end.min(range.end).saturating_sub(other.start.max(range.start));
        self.ranges.range(indices).map(shared).sum()
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
