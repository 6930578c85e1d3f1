//! State of the acknowledgments that one path must send.

use std::ops::Range;

use anabranch_wire::{Ecn, EcnCounts, PathId, Time, Writer, write_ack};

use super::Numbers;
use super::history::Repeat;
use super::numbers::Choice;
use crate::acknowledge::AckRule;
use crate::space::AckForm;
use crate::token::{Token, Tokens};

/// Maximum size of one more range and a longer ACK Range Count, in bytes.
const ONE_MORE_RANGE: usize = 8 + 8 + 1;

/// Time at which the next ACK of one path is due, and the largest packet number that it reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckState {
    /// The path.
    pub(super) path: PathId,
    /// Number of ack-eliciting packets since the last ACK.
    unacked: u32,
    /// One more than the largest number received on this path; 0 before the first packet.
    next: u64,
    /// Time at which the packet with the largest number arrived, from which the ACK Delay is measured.
    largest_at: Time,
    /// One more than the largest number of an ack-eliciting packet.
    next_eliciting: u64,
    /// `true` if the last packet was marked CE.
    last_was_ce: bool,
    /// `true` if an ACK must be sent at once.
    immediate: bool,
    /// `true` if a packet has arrived since the last ACK.
    news: bool,
    /// Time by which an ACK must be sent, if `unacked` is not 0.
    deadline: Time,
    /// One more than the largest number in the last ACK; 0 before the first.
    reported: u64,
    /// Kind of the next ACK: a first report, or a copy of the last ACK.
    repeat: Repeat,
}

impl AckState {
    /// Creates the state of `path` without any pending ACK.
    pub(crate) fn new(path: PathId) -> Self {
        Self { path, ..Self::default() }
    }

    /// Returns the largest packet number received on the path.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Records packets with these consecutive numbers, which arrived one after another and are already in
    /// `numbers`.
    pub(crate) fn on_packets(
        &mut self,
        now: Time,
        came: Range<u64>,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        numbers: &Numbers,
        policy: &AckRule,
    ) {
        if came.end > self.next {
            self.next = came.end;
            self.largest_at = now;
        }
        self.news = true;
        let is_ce = ecn == Some(Ecn::Ce);
        let newly_ce = is_ce && !self.last_was_ce;
        self.last_was_ce = is_ce;
        if ack_eliciting {
            if self.unacked == 0 {
                self.deadline = now + policy.max_delay;
            }
            let count = u32::try_from(came.end - came.start).unwrap_or(u32::MAX);
            self.unacked = self.unacked.saturating_add(count);
            // RFC 9000 §13.2.1 asks for an ACK at once for every CE packet. Here only the first of
            // consecutive CE packets causes one. This is enough, and keeps a larger threshold effective when
            // marks are frequent (draft-ietf-quic-ack-frequency §6.4).
            self.immediate |= u64::from(self.unacked) >= policy.threshold
                || newly_ce
                || numbers.is_pressing(self.path)
                || self.is_reordered(&came, policy.reordering_threshold, numbers);
            self.next_eliciting = self.next_eliciting.max(came.end);
        }
    }

    /// Returns whether reordering of these ack-eliciting packets requires an ACK at once.
    fn is_reordered(&self, came: &Range<u64>, threshold: u64, numbers: &Numbers) -> bool {
        let (first, last) = (came.start, came.end - 1);
        let largest = self.next_eliciting.checked_sub(1);
        match threshold {
            0 => false,
            // Gaps mean nothing in a shared space: a packet is out of order only relative to its own path.
            _ if numbers.shared => largest.is_some_and(|largest| first.saturating_add(threshold) <= largest),
            // RFC 9000 §13.2.1: smaller than another ack-eliciting packet, or with a gap between the two.
            1 => largest.is_some_and(|largest| {
                first < largest
                    || numbers.ranges.iter().next_back().is_some_and(|newest| newest.start > largest)
            }),
            _ => {
                let largest = largest.map_or(last, |largest| largest.max(last));
                numbers
                    .oldest_unreported_hole(self.reported.checked_sub(1), threshold)
                    .is_some_and(|hole| largest.saturating_sub(hole) >= threshold)
            }
        }
    }

    /// Returns the number of ack-eliciting packets that no ACK has reported.
    pub(crate) fn unacked(&self) -> u32 {
        self.unacked
    }

    /// Marks all packets of this path as reported, because an ACK for another path reported them as well: all
    /// paths share their numbers, and that ACK contained the largest number of all paths.
    pub(crate) fn mark_reported_by_others(&mut self) {
        if let Some(largest) = self.largest() {
            self.mark_reported(largest);
        }
    }

    /// Requires an ACK at once because the peer sent IMMEDIATE_ACK.
    pub(crate) fn require_ack(&mut self) {
        self.immediate = true;
    }

    /// Returns whether an ACK must be sent at once, even in a packet of its own.
    pub(crate) fn ack_now(&self) -> bool {
        self.immediate && self.next > 0
    }

    /// Returns whether an ACK must be sent at once, or its deadline has passed.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.ack_now() || self.ack_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns the state as of the last ACK, for repeating that ACK.
    pub(crate) fn as_reported(&self) -> Self {
        Self { next: self.reported, repeat: Repeat::Copy, ..self.clone() }
    }

    /// Returns the deadline of the next ACK; `None` if no ACK is pending, or if one must be sent at once.
    pub(crate) fn ack_deadline(&self) -> Option<Time> {
        (self.unacked > 0 && !self.immediate).then_some(self.deadline)
    }

    /// Returns whether any ack-eliciting packet has arrived since the last ACK.
    #[cfg(test)]
    pub(crate) fn has_unacked(&self) -> bool {
        self.unacked > 0
    }

    /// Returns whether an ACK would report anything new, so that it is worth its bytes in a packet that is
    /// sent anyway.
    pub(crate) fn can_ack(&self) -> bool {
        self.news
    }

    /// Writes an ACK, or a PATH_ACK if `multipath`, with as many ranges as fit and the strategy permits. No
    /// ACK is pending afterwards, unless packets were left out. Returns the number of ranges: 0 if not even
    /// one fits, or nothing was received.
    pub(crate) fn write_ack(
        &mut self,
        now: Time,
        w: &mut Writer<'_>,
        form: AckForm,
        numbers: &mut Numbers,
        tokens: &mut Tokens,
    ) -> usize {
        let AckForm { space, multipath, ack_delay_exponent } = form;
        let Some(largest) = self.largest() else { return 0 };
        let delay = now.saturating_since(self.largest_at).as_micros() >> ack_delay_exponent.min(20);
        let delay = u64::try_from(delay).unwrap_or(u64::MAX).min(anabranch_wire::MAX_VARINT);
        let ecn = (numbers.ecn() != EcnCounts::default()).then_some(numbers.ecn());
        let path = multipath.then_some(self.path);
        let (written, mut receipt) = if numbers.is_plain() {
            let Ok(written) = write_ack(w, path, numbers.newest(largest), delay, ecn) else { return 0 };
            (written, numbers.on_named(&[], largest + 1, self.repeat))
        } else {
            let Choice { ranges, below } = numbers.choose(now, self.path, largest, self.repeat);
            let inclusive = ranges.iter().map(|range| range.start..=range.end - 1);
            let Ok(written) = write_ack(w, path, inclusive, delay, ecn) else { return 0 };
            (written, numbers.on_named(&ranges[..written], below, self.repeat))
        };
        self.mark_reported(largest);
        if written == 0 {
            return 0; // All packets received on the path are below the horizon.
        }
        // Another ACK reports the rest, if more packets arrived than one frame can report.
        self.immediate = numbers.has_unnamed(self.path);
        if w.remaining() < ONE_MORE_RANGE {
            // The frame may have been cut short by the packet's size, not by the strategy.
            receipt.below = 0;
        }
        tokens.push(Token::Ack { space, path: self.path, receipt });
        written
    }

    fn mark_reported(&mut self, largest: u64) {
        self.reported = largest + 1;
        self.news = false;
        self.unacked = 0;
        self.immediate = false;
    }
}
