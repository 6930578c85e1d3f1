//! Record of how often and how long ACK frames have named each range of received packet numbers, and whether
//! the peer acknowledged one of them. It serves the range orders and horizons that need it.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use anabranch_wire::Time;

use super::Chosen;
use crate::config::RangeOrder;
use crate::ranges::RangeSet;

/// ACK frames whose ranges are remembered until the peer acknowledges one of them or a later one; the oldest
/// give way.
pub(super) const MAX_NAMED_FRAMES: usize = 1024;

/// Origin of an ACK frame. Ranges named by copies on other paths are counted separately, because copies may
/// arrive long after the next frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The first frame that reports packets.
    #[default]
    First,
    /// Its repetition on another path.
    Copy,
}

/// A range as it was when it last grew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    range: Range<u64>,
    /// Frames that named it since, by [`Repeat`].
    times_sent: [u32; 2],
    /// Time at which the range was first seen with these bounds.
    since: Time,
    /// The peer acknowledged a frame that named it.
    heard: bool,
}

/// One record for each range of a [`RangeSet`], ascending like them, as many as that one holds.
#[derive(Debug)]
pub(super) struct History {
    records: Vec<Record>,
    /// Frames that name a range which does not grow; after that it is left out.
    max_repeats: u32,
    /// Serial numbers of the latest frames and what they named, in the order in which they left.
    named: VecDeque<(u32, Chosen)>,
    /// Room for the records to come, kept so that nothing is allocated.
    spare: Vec<Record>,
    /// `true` if the ranges have changed since the records last followed them.
    is_behind: bool,
}

impl History {
    /// Creates an empty history; at most `max_repeats` frames name a range that does not grow.
    pub(super) fn new(max_repeats: u32) -> Self {
        Self { records: Vec::new(), max_repeats, named: VecDeque::new(), spare: Vec::new(), is_behind: false }
    }

    /// Notes that the ranges have changed.
    pub(super) fn on_change(&mut self) {
        self.is_behind = true;
    }

    /// Follows the changes of `received`: a range that grew, or that others joined, is a new one.
    pub(super) fn follow(&mut self, now: Time, received: &RangeSet) {
        if !std::mem::take(&mut self.is_behind) {
            return;
        }
        std::mem::swap(&mut self.records, &mut self.spare);
        let mut old = self.spare.drain(..).peekable();
        self.records.extend(received.iter().map(|range| {
            while old.next_if(|record| record.range.start < range.start).is_some() {}
            let new = |range| Record { range, times_sent: [0; 2], since: now, heard: false };
            old.next_if(|record| record.range == range).unwrap_or_else(|| new(range))
        }));
    }

    /// Returns the ranges of the next frame, descending: the one that ends with `largest`, and at most
    /// `max_ranges - 1` of those below it. The `order` prefers ranges that the fewest frames of this
    /// `telling` named, the lower of two first, or the newest ranges. Ranges that the peer has heard of are
    /// left out.
    pub(super) fn choose(
        &self,
        order: RangeOrder,
        largest: u64,
        max_ranges: usize,
        repeat: Repeat,
    ) -> Chosen {
        let times = |record: &Record| record.times_sent[repeat as usize];
        let below = self.records.partition_point(|record| record.range.start <= largest);
        let Some((top, rest)) = self.records[..below].split_last() else { return Chosen::new() };
        let wanted = |record: &&Record| !record.heard && times(record) < self.max_repeats;
        let mut rest: Vec<&Record> = rest.iter().filter(wanted).collect();
        let room = max_ranges.saturating_sub(1);
        if rest.len() > room {
            let rank = |a: &&Record, b: &&Record| match order {
                RangeOrder::LeastSentFirst => (times(a), a.range.start).cmp(&(times(b), b.range.start)),
                _ => b.range.start.cmp(&a.range.start),
            };
            rest.select_nth_unstable_by(room, rank);
            rest.truncate(room);
        }
        let mut chosen: Chosen = rest.into_iter().map(|record| record.range.clone()).collect();
        chosen.push(top.range.start..top.range.end.min(largest + 1));
        chosen.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
        chosen
    }

    fn record_at(&mut self, number: u64) -> Option<&mut Record> {
        let at = self.records.partition_point(|record| record.range.end <= number);
        self.records.get_mut(at)
    }

    /// Records that the frame with this serial number is sent and names these ranges.
    pub(super) fn on_named(&mut self, ranges: &[Range<u64>], frame: u32, repeat: Repeat) {
        for range in ranges {
            if let Some(record) = self.record_at(range.start) {
                let times = &mut record.times_sent[repeat as usize];
                *times = times.saturating_add(1);
            }
        }
        if self.named.len() == MAX_NAMED_FRAMES {
            self.named.pop_front();
        }
        self.named.push_back((frame, ranges.into()));
    }

    /// Marks the ranges of the frame with this serial number, which the peer acknowledged, as heard unless
    /// they have grown since. Frames before it are forgotten.
    pub(super) fn on_heard(&mut self, frame: u32) {
        let Some(at) = self.named.iter().position(|(serial, _)| *serial == frame) else { return };
        let Some((_, ranges)) = self.named.drain(..=at).next_back() else { return };
        for range in ranges {
            if let Some(record) = self.record_at(range.start)
                && record.range == range
            {
                record.heard = true;
            }
        }
    }

    /// Drops the records of ranges that end at `horizon` or below, which have been given up.
    pub(super) fn forget_below(&mut self, horizon: u64) {
        let done = self.records.partition_point(|record| record.range.end <= horizon);
        self.records.drain(..done);
    }

    /// Returns the end of the lowest ranges that are at least `age` old and that `times_sent` frames named or
    /// the peer has confirmed. The highest range stays, whatever its age.
    pub(super) fn horizon(&self, now: Time, age: Duration, times_sent: u32) -> Option<u64> {
        let told = |record: &Record| record.heard || record.times_sent[Repeat::First as usize] >= times_sent;
        // What the peer knows waits, too: packets of a slower path with smaller numbers may still be under
        // way.
        let done = |record: &&Record| now.saturating_since(record.since) >= age && told(record);
        let (_, below) = self.records.split_last()?;
        below.iter().take_while(done).last().map(|record| record.range.end)
    }
}
