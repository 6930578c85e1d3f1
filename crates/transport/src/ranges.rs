//! Sets of integers as sorted, disjoint ranges: received bytes, acknowledged bytes, packet numbers.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// Set of `u64` values, stored as ascending ranges that neither overlap nor touch.
///
/// The highest range is stored separately: nearly all insertions extend it, and do so in constant time. Any
/// other insertion or lookup takes time logarithmic in the number of ranges. The caller must bound the number
/// of ranges that a peer can create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// The highest range; `None` only if the set is empty.
    last: Option<Range<u64>>,
    /// The other ranges: start and end of each.
    below: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Returns whether the set is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the number of ranges.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.below.len() + usize::from(self.last.is_some())
    }

    /// Returns the largest value.
    #[inline(always)]
    pub(crate) fn max(&self) -> Option<u64> {
        self.last.as_ref().map(|range| range.end - 1)
    }

    /// Returns the lowest range.
    #[inline]
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        if self.below.is_empty() {
            return self.last.clone();
        }
        self.below.first_key_value().map(|(start, end)| *start..*end)
    }

    /// Returns whether `value` is in the set.
    #[inline(always)]
    pub(crate) fn contains(&self, value: u64) -> bool {
        // Most values looked up are new, or in the highest range.
        match &self.last {
            Some(last) if value < last.start => {
                self.at_or_below(value).is_some_and(|range| value < range.end)
            }
            Some(last) => value < last.end,
            None => false,
        }
    }

    /// Returns the range that contains `value`.
    #[inline]
    pub(crate) fn range_of(&self, value: u64) -> Option<Range<u64>> {
        let last = self.last.clone().filter(|last| last.start <= value);
        last.or_else(|| self.at_or_below(value)).filter(|range| value < range.end)
    }

    /// Returns the lowest value above the range that contains `value`; `None` if this is the highest range.
    ///
    /// `value` must be in the set.
    #[inline]
    pub(crate) fn next_after(&self, value: u64) -> Option<u64> {
        let last = self.last.as_ref().filter(|last| value < last.start)?;
        let above = self.below.range((Bound::Excluded(value), Bound::Unbounded)).next();
        Some(above.map_or(last.start, |(start, _)| *start))
    }

    /// Returns whether the set has a value in `range`, or directly next to it.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        let reaches = |other: &Range<u64>| other.start <= range.end && range.start <= other.end;
        self.last.as_ref().is_some_and(reaches) || self.at_or_below(range.end).as_ref().is_some_and(reaches)
    }

    /// Returns the ranges in ascending order. The iterator can be reversed.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + Clone + '_ {
        self.below.iter().map(|(start, end)| *start..*end).chain(self.last.iter().cloned())
    }

    /// Removes and returns the lowest range.
    #[inline]
    pub(crate) fn pop_min(&mut self) -> Option<Range<u64>> {
        match self.below.pop_first() {
            Some((start, end)) => Some(start..end),
            None => self.last.take(),
        }
    }

    /// Removes all ranges and frees their memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds `range` and returns how many of its values are new.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        self.insert_with(range, |_| ())
    }

    /// Adds `range` like [`Self::insert`], and passes its new parts to `news`.
    #[inline]
    pub(crate) fn insert_with(&mut self, range: Range<u64>, mut news: impl FnMut(Range<u64>)) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let new = match &mut self.last {
            Some(last) if range.start < last.start => return self.insert_below(range, news),
            Some(last) if range.start <= last.end => {
                let new = last.end..range.end.max(last.end);
                last.end = new.end;
                new
            }
            last => {
                if let Some(last) = last.replace(range.clone()) {
                    self.below.insert(last.start, last.end);
                }
                range
            }
        };
        let added = new.end - new.start;
        if added > 0 {
            news(new);
        }
        added
    }

    /// Adds a range that starts below the highest one. Visits the ranges to merge from the highest to the
    /// lowest.
    fn insert_below(&mut self, range: Range<u64>, mut news: impl FnMut(Range<u64>)) -> u64 {
        let mut joined = range.clone();
        // Values of `range` below `unknown` have not been compared with the set yet.
        let mut unknown = range.end;
        let mut added = 0;
        let mut tell = |new: Range<u64>| {
            if !new.is_empty() {
                added += new.end - new.start;
                news(new);
            }
        };
        let joins_last = self.last.clone().filter(|last| last.start <= range.end);
        if let Some(last) = &joins_last {
            joined.end = joined.end.max(last.end);
            tell(last.end..unknown);
            unknown = last.start;
        }
        while let Some((&start, end)) = self.below.range_mut(..=range.end).next_back() {
            if *end < range.start {
                break;
            }
            tell((*end).min(unknown)..unknown);
            unknown = unknown.min(start);
            joined.end = joined.end.max(*end);
            joined.start = joined.start.min(start);
            if start <= range.start && joins_last.is_none() {
                // This is the lowest range to merge, so it is extended in place.
                *end = joined.end;
                return added;
            }
            self.below.remove(&start);
        }
        tell(range.start..unknown);
        if joins_last.is_some() {
            self.last = Some(joined);
        } else {
            self.below.insert(joined.start, joined.end);
        }
        added
    }

    /// Removes `range` and returns how many of its values were in the set.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut removed = 0;
        let mut part = |other: &Range<u64>| {
            removed += range.end.min(other.end) - range.start.max(other.start);
        };
        while let Some((&start, end)) = self.below.range_mut(..range.end).next_back() {
            let other = start..*end;
            if other.end <= range.start {
                break;
            }
            part(&other);
            if start < range.start {
                *end = range.start;
            } else {
                self.below.remove(&start);
            }
            if range.end < other.end {
                self.below.insert(range.end, other.end);
            }
        }
        if let Some(last) = self.last.take_if(|last| last.start < range.end && range.start < last.end) {
            part(&last);
            let (left, right) = (last.start..range.start, range.end..last.end);
            if right.is_empty() {
                self.last = Some(left).filter(|left| !left.is_empty());
            } else {
                self.last = Some(right);
                if !left.is_empty() {
                    self.below.insert(left.start, left.end);
                }
            }
            if self.last.is_none() {
                self.last = self.below.pop_last().map(|(start, end)| start..end);
            }
        }
        removed
    }

    /// Returns the parts of `within` that are in the set, in ascending order.
    pub(crate) fn within(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let inside = self.from(within.start).take_while(move |range| range.start < within.end);
        inside.map(move |range| range.start.max(within.start)..range.end.min(within.end))
    }

    /// Returns the parts of `within` that are not in the set, in ascending order.
    pub(crate) fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut ranges = self.from(within.start);
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

    /// Returns the ranges that end above `value`, in ascending order.
    fn from(&self, value: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let holds = self.at_or_below(value).filter(|range| value < range.end);
        let below = self.below.range(holds.map_or(value, |range| range.start)..);
        let last = self.last.iter().filter(move |last| value < last.end);
        below.map(|(start, end)| *start..*end).chain(last.cloned())
    }

    /// Returns the highest range of `below` that starts at or below `value`.
    fn at_or_below(&self, value: u64) -> Option<Range<u64>> {
        self.below.range(..=value).next_back().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests;
