//! Records for each range of received packet numbers: the number of ACK frames that reported it, its age, and
//! whether the peer acknowledged one of these frames. Some range orders and horizons need these records.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use anabranch_wire::Time;

use super::Chosen;
use crate::config::RangeOrder;
use crate::ranges::RangeSet;

/// Maximum number of ACK frames whose ranges are remembered until the peer acknowledges one of them or a
/// later one. The oldest are dropped first.
pub(super) const MAX_NAMED_FRAMES: usize = 1024;

/// Kind of an ACK frame. Copies on other paths are counted separately, because they may arrive long after the
/// next frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// First frame that reports packets.
    #[default]
    First,
    /// Copy of such a frame on another path.
    Copy,
}

/// A range, and its reports since it last grew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    range: Range<u64>,
    /// Number of frames that have reported the range since it last grew, by their kind ([`Repeat`]).
    times_sent: [u32; 2],
    /// Time at which the range reached these bounds.
    since: Time,
    /// `true` if the peer acknowledged a frame that reported the range.
    heard: bool,
}

/// Records for the ranges of a [`RangeSet`], one for each, in ascending order.
#[derive(Debug)]
pub(super) struct History {
    records: Vec<Record>,
    /// Maximum number of frames that report a range that does not grow. The range is then left out.
    max_repeats: u32,
    /// Serial numbers of the latest frames, with the ranges that they reported, in sending order.
    named: VecDeque<(u32, Chosen)>,
    /// Buffer for the next records, kept to avoid allocations.
    spare: Vec<Record>,
    /// `true` if the ranges have changed since the records were last updated.
    is_behind: bool,
}

impl History {
    /// Creates an empty history. At most `max_repeats` frames report a range that does not grow.
    pub(super) fn new(max_repeats: u32) -> Self {
        Self { records: Vec::new(), max_repeats, named: VecDeque::new(), spare: Vec::new(), is_behind: false }
    }

    /// Records that the ranges have changed.
    pub(super) fn on_change(&mut self) {
        self.is_behind = true;
    }

    /// Updates the records to the ranges in `received`. A range that grew or merged gets a new record.
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

    /// Returns the ranges of the next frame, descending: the one that contains `largest`, cut off at
    /// `largest`, and at most `max_ranges - 1` lower ones. The `order` prefers either the newest ranges, or
    /// those that the fewest frames of kind `repeat` have reported, the lower one if equal. Ranges are left
    /// out if the peer is known to have learned of them, or if `max_repeats` frames of that kind have
    /// reported them.
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

    /// Records that the frame with serial number `frame` reports these ranges.
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

    /// Handles the peer's acknowledgment of the frame with serial number `frame`: marks its ranges as known
    /// to the peer, unless they have grown since. Earlier frames are dropped.
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

    /// Removes the records of ranges that end at or below `horizon`, which are abandoned.
    pub(super) fn forget_below(&mut self, horizon: u64) {
        let done = self.records.partition_point(|record| record.range.end <= horizon);
        self.records.drain(..done);
    }

    /// Returns the end of the lowest ranges that are at least `age` old, and that `times_sent` frames have
    /// reported or the peer has confirmed. The highest range is never included.
    pub(super) fn horizon(&self, now: Time, age: Duration, times_sent: u32) -> Option<u64> {
        let told = |record: &Record| record.heard || record.times_sent[Repeat::First as usize] >= times_sent;
        // Ranges that the peer knows must reach the age as well: packets of a slower path with smaller
        // numbers may still be in flight.
        let done = |record: &&Record| now.saturating_since(record.since) >= age && told(record);
        let (_, below) = self.records.split_last()?;
        below.iter().take_while(done).last().map(|record| record.range.end)
    }
}
