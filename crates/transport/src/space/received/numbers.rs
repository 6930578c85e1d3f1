//! Packet numbers received in one space, and the peer's knowledge of them.

use std::ops::{Range, RangeInclusive};

use anabranch_wire::{Ecn, EcnCounts, PathId, Time};

use super::history::{History, Repeat};
use super::news::News;
use super::{Chosen, DEFAULT_RANGES, MAX_RANGES};
use crate::config::{AckConfig, Horizon, RangeOrder};
use crate::ranges::RangeSet;

/// Number of later ACK frames after which an ACK frame is no longer expected to be acknowledged.
const MEMORABLE_FRAMES: u32 = u32::MAX / 2;

/// Packet numbers received in one space. If all paths share a number space, the connection has one such set;
/// otherwise each path has one.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Received numbers: the newest `kept` ranges.
    pub(super) ranges: RangeSet,
    /// Numbers below the horizon are no longer remembered and count as received.
    pub(super) horizon: u64,
    ecn: EcnCounts,
    /// Number below which the peer knows of all received packets.
    confirmed: u64,
    /// Serial number of the next ACK frame; it wraps around.
    frames: u32,
    /// Serial number of the first ACK frame written after the latest out-of-order packet arrived. Earlier
    /// frames do not necessarily report that packet.
    proof_from: u32,
    /// One more than the smallest number received in the current key phase; 0 before the first.
    first_of_phase: u64,
    /// Additional records; `None` unless the configured range order or horizon requires them.
    records: Option<Box<Records>>,
    /// Maximum number of ranges remembered.
    pub(super) kept: u16,
    /// Maximum number of ranges in one ACK frame.
    max_ranges: u16,
    order: RangeOrder,
    /// `true` if several paths share the numbers. A missing number may then be in flight on a slower path.
    pub(super) shared: bool,
}

/// Records that some strategies keep in addition to the numbers.
#[derive(Debug)]
struct Records {
    horizon: Horizon,
    history: Option<History>,
    news: Option<News>,
}

/// Consecutive packet numbers that were not received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    numbers: Range<u64>,
    /// Number of bits of a packet number from which a receiver decodes these numbers. Fewer bits may mean
    /// another number, nearer to the largest received one (RFC 9000 §A.3).
    min_bits: u32,
}

impl Gap {
    /// Returns the first number of the gap.
    pub(crate) fn first(&self) -> u64 {
        self.numbers.start
    }

    /// Returns whether `number` is in the gap, and is the number of a packet that contains these `bits` of it.
    /// It must not be below the gap.
    #[inline(always)]
    pub(crate) fn names(&self, number: u64, truncated: u64, bits: u32) -> bool {
        let differs = (truncated ^ number) << (u64::BITS - bits);
        differs == 0 && bits >= self.min_bits && number < self.numbers.end
    }
}

/// Ranges chosen for an ACK frame.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) ranges: Chosen,
    /// Number below which the peer knows of all received packets, once it has the complete frame.
    pub(super) below: u64,
}

/// Identification of a written ACK frame, and the conclusion to draw when the peer acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Serial number of the frame in its space.
    pub(crate) frame: u32,
    /// Number below which the peer, having received the frame, knows of all packets that arrived before the
    /// frame was sent.
    pub(crate) below: u64,
}

/// Creates the numbers of a handshake space, with the newest ranges first.
impl Default for Numbers {
    fn default() -> Self {
        Self::new(&AckConfig::default())
    }
}

impl Numbers {
    /// Creates an empty set of numbers that only the packets of one path use.
    pub(crate) fn new(config: &AckConfig) -> Self {
        Self::with(config, false)
    }

    /// Creates an empty set of numbers that the packets of several paths share.
    pub(crate) fn shared(config: &AckConfig) -> Self {
        Self::with(config, true)
    }

    fn with(config: &AckConfig, shared: bool) -> Self {
        let default = if shared { RangeOrder::NewsFirst } else { RangeOrder::NewestFirst };
        let order = config.order.unwrap_or(default);
        let max_ranges = config.max_ranges.clamp(2, MAX_RANGES);
        // Each packet in flight on a slow path costs one range if a fast path delivers the numbers before and
        // after it.
        let kept = if shared { MAX_RANGES } else { max_ranges.max(DEFAULT_RANGES) };
        // If the order is set explicitly to newest-first, records keep track of what the peer knows, range by
        // range.
        let counts = order == RangeOrder::LeastSentFirst
            || config.order == Some(RangeOrder::NewestFirst)
            || matches!(config.horizon, Horizon::Delay { .. });
        let tells = order == RangeOrder::NewsFirst;
        let records = (counts || tells || config.horizon != Horizon::None).then(|| {
            Box::new(Records {
                horizon: config.horizon,
                history: counts.then(|| History::new(config.max_repeats)),
                news: tells.then(News::default),
            })
        });
        Self {
            ranges: RangeSet::default(),
            horizon: 0,
            ecn: EcnCounts::default(),
            confirmed: 0,
            frames: 0,
            proof_from: 0,
            first_of_phase: 0,
            records,
            kept: kept as u16,
            max_ranges: max_ranges as u16,
            order,
            shared,
        }
    }

    /// Returns the smallest number received in the current key phase.
    pub(crate) fn first_of_phase(&self) -> Option<u64> {
        self.first_of_phase.checked_sub(1)
    }

    /// Records that a packet of the current key phase was received.
    #[inline]
    pub(crate) fn note_phase(&mut self, pn: u64) {
        if self.first_of_phase == 0 || pn < self.first_of_phase {
            self.first_of_phase = pn + 1;
        }
    }

    /// Begins a key phase.
    pub(crate) fn begin_phase(&mut self) {
        self.first_of_phase = 0;
    }

    /// Returns the largest packet number received.
    #[inline(always)]
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.max()
    }

    /// Returns whether `pn` was received before, or is below the remembered numbers. In both cases the packet
    /// must be discarded (RFC 9000 §12.3).
    #[inline(always)]
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        pn < self.horizon || self.ranges.contains(pn)
    }

    /// Returns the numbers directly after the received `number` that were not received, and that may be
    /// recorded together. Returns `None` if there are none, or if `number` is no longer remembered. Below the
    /// largest number, only numbers that paths share may be recorded together; with [`Horizon::Packets`], none.
    #[inline]
    pub(crate) fn gap_after(&self, number: u64) -> Option<Gap> {
        if self.records.as_ref().is_some_and(|records| records.horizon.follows_largest()) {
            return None; // The horizon might pass a missing number before an ACK reports it.
        }
        let largest = self.largest()?;
        if number == largest {
            return Some(Gap { numbers: number + 1..u64::MAX, min_bits: 0 });
        }
        let range = self.ranges.range_of(number).filter(|range| self.shared && range.end == number + 1)?;
        let end = self.ranges.next_after(number)?;
        // They are less than half of the numbers that the bits distinguish below the next expected one.
        let min_bits = u64::BITS - (largest - number).leading_zeros() + 1;
        Some(Gap { numbers: range.end..end, min_bits })
    }

    /// Returns the totals of received ECN codepoints.
    pub(crate) fn ecn(&self) -> EcnCounts {
        self.ecn
    }

    /// Records packets of `path`, which must not be duplicates, and their ECN codepoint.
    pub(crate) fn insert(&mut self, path: PathId, came: Range<u64>, ack_eliciting: bool, ecn: Option<Ecn>) {
        if self.ranges.max().is_some_and(|largest| came.start < largest) {
            self.confirmed = self.confirmed.min(came.start);
            self.proof_from = self.frames;
        }
        self.ranges.insert(came.clone());
        let count = came.end - came.start;
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += count,
            Some(Ecn::Ect1) => self.ecn.ect1 += count,
            Some(Ecn::Ce) => self.ecn.ce += count,
            None => {}
        }
        while self.ranges.len() > usize::from(self.kept) {
            // RFC 9000 §13.2.3: the oldest ranges are dropped first, and packets in or below them must not be
            // accepted again.
            let Some(oldest) = self.ranges.pop_min() else { break };
            self.horizon = oldest.end;
        }
        if self.records.is_some() {
            self.record(path, came, ack_eliciting);
        }
    }

    /// Updates the records for packets that arrived, and applies [`Horizon::Packets`].
    fn record(&mut self, path: PathId, came: Range<u64>, ack_eliciting: bool) {
        self.note_change();
        if let Some(news) = self.news_mut()
            && ack_eliciting
        {
            came.for_each(|number| news.on_packet(path, number));
        }
        if let Some(Horizon::Packets(packets)) = self.records.as_ref().map(|records| records.horizon)
            && let Some(horizon) = self.largest().and_then(|largest| largest.checked_sub(packets))
        {
            self.give_up_below(horizon);
        }
    }

    fn note_change(&mut self) {
        if let Some(Records { history: Some(history), .. }) = self.records.as_deref_mut() {
            history.on_change();
        }
    }

    fn news_mut(&mut self) -> Option<&mut News> {
        self.records.as_mut()?.news.as_mut()
    }

    fn news(&self) -> Option<&News> {
        self.records.as_ref()?.news.as_ref()
    }

    /// Returns whether so many arrivals on `path` are unreported that an ACK must be sent, even if the peer
    /// requested fewer ACKs.
    pub(super) fn is_pressing(&self, path: PathId) -> bool {
        self.news().is_some_and(|news| news.is_pressing(path, usize::from(self.max_ranges)))
    }

    /// Returns whether some arrival on `path` has not been reported by any ACK.
    pub(super) fn has_unnamed(&self, path: PathId) -> bool {
        self.news().is_some_and(|news| news.has_unnamed(path))
    }

    fn give_up_below(&mut self, horizon: u64) {
        if horizon > self.horizon {
            self.ranges.remove(self.horizon..horizon);
            self.horizon = horizon;
            self.note_change();
        }
    }

    /// Returns whether the numbers alone decide which ranges an ACK reports. [`Self::newest`] then returns
    /// these ranges.
    pub(super) fn is_plain(&self) -> bool {
        self.order == RangeOrder::NewestFirst && self.history().is_none()
    }

    /// Returns the ranges of an ACK with this `largest` number, newest first. Packets that the peer knows to
    /// be received are left out, but every ACK includes the largest number.
    pub(super) fn newest(&self, largest: u64) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.unconfirmed(largest).map(|range| range.start..=range.end - 1).take(self.max_ranges.into())
    }

    fn history(&self) -> Option<&History> {
        self.records.as_ref()?.history.as_ref()
    }

    /// Returns the ranges up to `largest`, descending: the one that contains it, and those that the peer may
    /// not know.
    fn unconfirmed(&self, largest: u64) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        let confirmed = self.confirmed;
        self.ranges
            .iter()
            .rev()
            .skip_while(move |range| range.start > largest)
            .enumerate()
            .take_while(move |(index, range)| *index == 0 || range.end > confirmed)
            .map(move |(_, range)| range.start..range.end.min(largest + 1))
    }

    /// Returns the ranges of an ACK of `path` with this `largest` number, in the configured range order. The
    /// order must not be [plain](Self::is_plain).
    pub(super) fn choose(&mut self, now: Time, path: PathId, largest: u64, repeat: Repeat) -> Choice {
        let Self { ranges, records, .. } = self;
        if let Some(Records { horizon, history: Some(history), .. }) = records.as_deref_mut() {
            history.follow(now, ranges);
            if let Horizon::Delay { age, times_sent } = *horizon
                && let Some(end) = history.horizon(now, age, times_sent).filter(|end| *end <= largest)
            {
                history.forget_below(end);
                self.give_up_below(end);
            }
        }
        let max_ranges = usize::from(self.max_ranges);
        match self.order {
            RangeOrder::OldestFirst => self.oldest(largest),
            order @ (RangeOrder::NewestFirst | RangeOrder::LeastSentFirst) => {
                let history = self.history();
                let chosen = history.map(|history| history.choose(order, largest, max_ranges, repeat));
                Choice { ranges: chosen.unwrap_or_default(), below: 0 }
            }
            RangeOrder::NewsFirst => {
                let news = self.news();
                let chosen = news.map(|news| news.choose(&self.ranges, path, largest, max_ranges));
                Choice { ranges: chosen.unwrap_or_default(), below: 0 }
            }
        }
    }

    fn oldest(&self, largest: u64) -> Choice {
        let count = self.unconfirmed(largest).count();
        let left_out = count.saturating_sub(self.max_ranges.into());
        let ranges: Chosen = self
            .unconfirmed(largest)
            .enumerate()
            .filter(|(at, _)| *at == 0 || *at > left_out)
            .map(|(_, range)| range)
            .collect();
        let below = match left_out {
            0 => largest + 1,
            _ => ranges.get(1).map_or(0, |range| range.end),
        };
        Choice { ranges, below }
    }

    /// Records that an ACK frame is sent with these ranges. The frame reports every received number below
    /// `below`, except those that the peer already knows.
    pub(super) fn on_named(&mut self, ranges: &[Range<u64>], below: u64, repeat: Repeat) -> Receipt {
        if let Some(records) = &mut self.records {
            if let Some(history) = &mut records.history {
                history.on_named(ranges, self.frames, repeat);
            }
            if let Some(news) = &mut records.news {
                news.on_named(ranges, self.frames);
            }
        }
        let told = Receipt { frame: self.frames, below };
        self.frames = self.frames.wrapping_add(1);
        if self.frames.wrapping_sub(self.proof_from) > MEMORABLE_FRAMES {
            self.proof_from = self.proof_from.wrapping_add(1); // Otherwise the difference would wrap around.
        }
        told
    }

    /// Returns the smallest missing packet number that the peer could not yet declare lost after an ACK with
    /// the largest number `reported`.
    pub(super) fn oldest_unreported_hole(&self, reported: Option<u64>, threshold: u64) -> Option<u64> {
        // The peer could already declare every number up to `reported - threshold` lost.
        let reportable = reported.and_then(|largest| (largest + 1).checked_sub(threshold));
        let first = reportable.unwrap_or(0).max(self.horizon);
        let mut newer = self.ranges.iter().rev().take_while(|range| range.end > first);
        let newest = newer.next()?;
        match newer.last() {
            None => (newest.start > first).then_some(first),
            Some(oldest) if oldest.start > first => Some(first),
            Some(oldest) => Some(oldest.end),
        }
    }

    /// Handles the peer's acknowledgment of an ACK frame. Its ranges need not be sent again (RFC 9000
    /// §13.2.4), but they are remembered to detect duplicates.
    pub(crate) fn on_ack_acked(&mut self, receipt: Receipt) {
        if receipt.frame.wrapping_sub(self.proof_from) <= MEMORABLE_FRAMES {
            self.confirmed = self.confirmed.max(receipt.below);
        }
        if let Some(records) = &mut self.records {
            if let Some(history) = &mut records.history {
                history.on_heard(receipt.frame);
            }
            if let Some(news) = &mut records.news {
                news.on_heard(receipt.frame);
            }
        }
    }
}
