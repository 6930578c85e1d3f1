//! How often and how long each range of received packet numbers has been told: for orders and horizons that ask.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

use anabranch_wire::Time;

use super::numbers::Chosen;
use crate::ranges::RangeSet;

/// A range as it was when it last grew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    range: Range<u64>,
    /// Frames that named it since.
    times_sent: u32,
    /// When it was first seen like this.
    since: Time,
}

/// One record for each range of a [`RangeSet`], ascending like them, as many as that one holds.
#[derive(Debug, Default)]
pub(super) struct History {
    records: Vec<Record>,
}

impl History {
    /// Follows the changes of `received`: a range that grew, or that others joined, is a new one.
    pub(super) fn follow(&mut self, now: Time, received: &RangeSet) {
        let mut old = std::mem::take(&mut self.records).into_iter().peekable();
        self.records = received
            .iter()
            .map(|range| {
                while old.next_if(|record| record.range.start < range.start).is_some() {}
                old.next_if(|record| record.range == range).unwrap_or(Record {
                    range,
                    times_sent: 0,
                    since: now,
                })
            })
            .collect();
    }

    /// The ranges of the next frame, descending: the one that ends with `largest`, and of those below it at most
    /// `max_ranges - 1` that the fewest frames named, the lower of two first. What lies in `known` is left out.
    pub(super) fn choose(&self, largest: u64, known: &Range<u64>, max_ranges: usize) -> Chosen {
        let below = self.records.partition_point(|record| record.range.start <= largest);
        let Some((top, rest)) = self.records[..below].split_last() else { return Chosen::new() };
        let unknown = |record: &&Record| record.range.start < known.start || record.range.end > known.end;
        let mut rest: Vec<&Record> = rest.iter().filter(unknown).collect();
        let room = max_ranges.saturating_sub(1);
        if rest.len() > room {
            let rank = |a: &&Record, b: &&Record| match a.times_sent.cmp(&b.times_sent) {
                Ordering::Equal => a.range.start.cmp(&b.range.start),
                order => order,
            };
            rest.select_nth_unstable_by(room, rank);
            rest.truncate(room);
        }
        let mut chosen: Chosen = rest.into_iter().map(|record| record.range.clone()).collect();
        chosen.push(top.range.start..top.range.end.min(largest + 1));
        chosen.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
        chosen
    }

    /// A frame that names these ranges leaves.
    pub(super) fn on_told(&mut self, ranges: &[Range<u64>]) {
        for range in ranges {
            let at = self.records.partition_point(|record| record.range.end <= range.start);
            if let Some(record) = self.records.get_mut(at) {
                record.times_sent = record.times_sent.saturating_add(1);
            }
        }
    }

    /// End of the lowest ranges that are at least `age` old and that `times_sent` frames named or that the peer knows, which
    /// is what lies in `known`. The highest range stays, whatever its age.
    pub(super) fn horizon(
        &self,
        now: Time,
        known: &Range<u64>,
        age: Duration,
        times_sent: u32,
    ) -> Option<u64> {
        let settled = |record: &&Record| {
            let known = known.start <= record.range.start && record.range.end <= known.end;
            known || record.times_sent >= times_sent && now.saturating_since(record.since) >= age
        };
        let (_, below) = self.records.split_last()?;
        below.iter().take_while(settled).last().map(|record| record.range.end)
    }
}
