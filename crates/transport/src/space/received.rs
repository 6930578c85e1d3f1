//! What was received in one packet number space, and the acknowledgments owed for it (RFC 9000 §13.2).

use std::time::Duration;

use anabranch_wire::{Ecn, EcnCounts, PathId, SpaceId, Time, Writer, write_ack};

use crate::ranges::RangeSet;
use crate::token::{Token, Tokens};

/// Most ranges of packet numbers that any policy may keep; the default policy keeps 64. Each hole that a peer leaves
/// costs one range, so this bounds both memory and the size of ACK frames.
pub(crate) const MAX_RANGES: usize = 1024;

/// When acknowledgments leave and how much they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckPolicy {
    /// Ack-eliciting packets that make an ACK leave at once: 1 acknowledges each of them. (An ACK_FREQUENCY frame's
    /// threshold is one less.)
    pub(crate) threshold: u64,
    /// Longest deliberate delay of an ACK.
    pub(crate) max_delay: Duration,
    /// 0: reordering never makes an ACK leave at once. 1: every packet out of order does (RFC 9000 §13.2.1). More: an
    /// unreported hole this far below the largest packet does (draft-ietf-quic-ack-frequency §6.2).
    pub(crate) reordering_threshold: u64,
    /// Ranges remembered, and named by one ACK frame at most; above [`MAX_RANGES`] counts as that.
    pub(crate) max_ranges: usize,
}

impl AckPolicy {
    fn max_ranges(&self) -> usize {
        self.max_ranges.clamp(1, MAX_RANGES)
    }
}

/// The packets received in one space (Initial, Handshake, or the 1-RTT packets of one path).
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Numbers received, the newest [`AckPolicy::max_ranges`] ranges of them.
    ranges: RangeSet,
    /// Numbers below were forgotten and count as received.
    horizon: u64,
    /// When the largest number arrived: the ACK delay counts from here.
    largest_at: Time,
    /// Largest number of an ack-eliciting packet.
    largest_eliciting: Option<u64>,
    ecn: EcnCounts,
    /// Whether the last packet was marked CE.
    last_was_ce: bool,
    /// Ack-eliciting packets since the last ACK.
    unacked: u64,
    /// An ACK must not wait any longer.
    immediate: bool,
    /// When an ACK must leave; `Some` exactly while `unacked` is not 0.
    deadline: Option<Time>,
    /// Something arrived since the last ACK.
    news: bool,
    /// Largest number of the last ACK.
    reported: Option<u64>,
    /// The peer knows what we received below.
    confirmed: u64,
    /// Number that an ACK must exceed to prove that it was written after the latest packet out of order had come: an ACK
    /// with a smaller largest number may lack that packet.
    proof_above: Option<u64>,
}

impl Received {
    /// Nothing received; no heap until something is.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Largest packet number received.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.max()
    }

    /// Whether `pn` was received before, or lies below what is remembered (RFC 9000 §12.3: then it must be discarded,
    /// too).
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        pn < self.horizon || self.ranges.contains(pn)
    }

    /// A packet that is not a duplicate was received and all its frames processed.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        pn: u64,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        policy: &AckPolicy,
    ) {
        match self.ranges.max() {
            Some(largest) if pn < largest => {
                self.confirmed = self.confirmed.min(pn);
                self.proof_above = Some(largest);
            }
            _ => self.largest_at = now,
        }
        self.ranges.insert(pn..pn + 1);
        self.news = true;
        let newly_ce = self.count_ecn(ecn);
        if ack_eliciting {
            self.unacked += 1;
            self.deadline.get_or_insert(now + policy.max_delay);
            // RFC 9000 §13.2.1 wants every CE packet acknowledged at once; the first of a run is enough and does not
            // defeat a larger threshold when marks are frequent (draft-ietf-quic-ack-frequency §6.4).
            self.immediate |= self.unacked >= policy.threshold
                || newly_ce
                || self.is_reordered(pn, policy.reordering_threshold);
            self.largest_eliciting = self.largest_eliciting.max(Some(pn));
        }
        while self.ranges.len() > policy.max_ranges() {
            // RFC 9000 §13.2.3: the oldest ranges go first, and what is in them or below must not be accepted again.
            let Some(oldest) = self.ranges.pop_min() else { break };
            self.horizon = oldest.end;
        }
    }

    /// Counts the packet's mark; whether a run of CE begins with it.
    fn count_ecn(&mut self, ecn: Option<Ecn>) -> bool {
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => {}
        }
        let is_ce = ecn == Some(Ecn::Ce);
        let begins = is_ce && !self.last_was_ce;
        self.last_was_ce = is_ce;
        begins
    }

    /// Whether the ack-eliciting packet `pn`, already among the ranges, makes an ACK leave at once.
    fn is_reordered(&self, pn: u64, threshold: u64) -> bool {
        match threshold {
            0 => false,
            // RFC 9000 §13.2.1: smaller than another ack-eliciting packet, or with a hole between the two.
            1 => self.largest_eliciting.is_some_and(|largest| {
                pn < largest || self.ranges.iter().next_back().is_some_and(|newest| newest.start > largest)
            }),
            _ => {
                let largest = self.largest_eliciting.map_or(pn, |largest| largest.max(pn));
                self.oldest_unreported_hole(threshold)
                    .is_some_and(|hole| largest.saturating_sub(hole) >= threshold)
            }
        }
    }

    /// Smallest missing number that the last ACK did not yet let the peer declare lost.
    fn oldest_unreported_hole(&self, threshold: u64) -> Option<u64> {
        // Every number up to `reported - threshold` could already be declared lost.
        let reportable = self.reported.and_then(|largest| (largest + 1).checked_sub(threshold));
        let first = reportable.unwrap_or(0).max(self.horizon);
        let mut newer = self.ranges.iter().rev().take_while(|range| range.end > first);
        let newest = newer.next()?;
        match newer.last() {
            None => (newest.start > first).then_some(first),
            Some(oldest) if oldest.start > first => Some(first),
            Some(oldest) => Some(oldest.end),
        }
    }

    /// The peer asked for an ACK at once (IMMEDIATE_ACK).
    pub(crate) fn require_ack(&mut self) {
        self.immediate = true;
    }

    /// Whether an ACK must leave now, even in a packet of its own.
    pub(crate) fn ack_now(&self) -> bool {
        self.immediate && self.largest().is_some()
    }

    /// When an ACK must leave at the latest; `None` if none is owed or it must leave now anyway.
    pub(crate) fn ack_deadline(&self) -> Option<Time> {
        self.deadline.filter(|_| !self.immediate)
    }

    /// Whether an ack-eliciting packet has not been acknowledged yet.
    #[cfg_attr(not(test), expect(dead_code, reason = "for observers"))]
    pub(crate) fn has_unacked(&self) -> bool {
        self.unacked > 0
    }

    /// Whether an ACK would say something new, so that it is worth its bytes in a packet that leaves anyway.
    pub(crate) fn can_ack(&self) -> bool {
        self.news
    }

    /// Totals of received marks.
    #[cfg_attr(not(test), expect(dead_code, reason = "for observers"))]
    pub(crate) fn ecn(&self) -> EcnCounts {
        self.ecn
    }

    /// Writes an ACK, or a PATH_ACK of `path` if `multipath`, with as many ranges as fit, newest first, and settles the
    /// debt. `false` if not even one fits, or nothing was received.
    #[expect(clippy::too_many_arguments, reason = "what an ACK frame depends on, once per packet")]
    pub(crate) fn write_ack(
        &mut self,
        now: Time,
        w: &mut Writer<'_>,
        space: SpaceId,
        path: PathId,
        multipath: bool,
        ack_delay_exponent: u64,
        policy: &AckPolicy,
        tokens: &mut Tokens,
    ) -> bool {
        let Some(largest) = self.largest() else { return false };
        // What the peer knows that we received is left out, but the largest number belongs into every ACK.
        let ranges = self
            .ranges
            .iter()
            .rev()
            .enumerate()
            .take_while(|(index, range)| *index == 0 || range.end > self.confirmed)
            .map(|(_, range)| range.start..=range.end - 1)
            .take(policy.max_ranges());
        let delay = now.saturating_since(self.largest_at).as_micros() >> ack_delay_exponent.min(20);
        let delay = u64::try_from(delay).unwrap_or(u64::MAX).min(anabranch_wire::MAX_VARINT);
        let ecn = (self.ecn != EcnCounts::default()).then_some(self.ecn);
        if write_ack(w, multipath.then_some(path), ranges, delay, ecn).is_err() {
            return false;
        }
        tokens.push(Token::Ack { space, path, largest });
        self.reported = Some(largest);
        self.news = false;
        self.unacked = 0;
        self.immediate = false;
        self.deadline = None;
        true
    }

    /// The peer acknowledged an ACK whose largest number was `largest`: older ranges need not be repeated
    /// (RFC 9000 §13.2.4). They stay remembered, so that duplicates are still recognised.
    pub(crate) fn on_ack_acked(&mut self, largest: u64) {
        if self.proof_above.is_none_or(|above| largest > above) {
            self.confirmed = self.confirmed.max(largest + 1);
        }
    }
}

#[cfg(test)]
mod tests;
