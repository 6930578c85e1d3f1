//! Which packet numbers of one space were received, and what the peer knows of that.

use std::ops::RangeInclusive;

use anabranch_wire::{Ecn, EcnCounts};

use super::AckPolicy;
use crate::ranges::RangeSet;

/// The packet numbers received in one space. With a single number space for all paths there is one of these for the
/// connection, otherwise one for each path.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Numbers received, the newest [`AckPolicy::max_ranges`] ranges of them.
    pub(super) ranges: RangeSet,
    /// Numbers below were forgotten and count as received.
    pub(super) horizon: u64,
    ecn: EcnCounts,
    /// The peer knows what we received below.
    confirmed: u64,
    /// Number that an ACK must reach to prove that it was written after the latest packet out of order had come: an ACK
    /// with a smaller largest number may lack that packet.
    proof_from: u64,
    /// Several paths share the numbers: one that is missing may be under way on a slower path.
    pub(super) shared: bool,
}

impl Numbers {
    /// Numbers that the packets of several paths share.
    #[cfg_attr(not(test), expect(dead_code, reason = "for paths that share one number space"))]
    pub(crate) fn shared() -> Self {
        Self { shared: true, ..Self::default() }
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

    /// Totals of received marks.
    pub(crate) fn ecn(&self) -> EcnCounts {
        self.ecn
    }

    /// Notes a packet that is not a duplicate, and its mark.
    pub(crate) fn insert(&mut self, pn: u64, ecn: Option<Ecn>) {
        if let Some(largest) = self.ranges.max().filter(|largest| pn < *largest) {
            self.confirmed = self.confirmed.min(pn);
            self.proof_from = largest + 1;
        }
        self.ranges.insert(pn..pn + 1);
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => {}
        }
    }

    /// Keeps to the policy's bound.
    pub(crate) fn forget(&mut self, policy: &AckPolicy) {
        while self.ranges.len() > policy.max_ranges() {
            // RFC 9000 §13.2.3: the oldest ranges go first, and what is in them or below must not be accepted again.
            let Some(oldest) = self.ranges.pop_min() else { break };
            self.horizon = oldest.end;
        }
    }

    /// The ranges that an ACK of `largest` names, newest first. What the peer knows that we received is left out, but the
    /// largest number belongs into every ACK.
    pub(crate) fn ranges_below(
        &self,
        largest: u64,
        policy: &AckPolicy,
    ) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        let confirmed = self.confirmed;
        self.ranges
            .iter()
            .rev()
            .skip_while(move |range| range.start > largest)
            .enumerate()
            .take_while(move |(index, range)| *index == 0 || range.end > confirmed)
            .map(move |(_, range)| range.start..=(range.end - 1).min(largest))
            .take(policy.max_ranges())
    }

    /// Smallest missing number that an ACK of `reported` did not yet let the peer declare lost.
    pub(super) fn oldest_unreported_hole(&self, reported: Option<u64>, threshold: u64) -> Option<u64> {
        // Every number up to `reported - threshold` could already be declared lost.
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

    /// The peer acknowledged an ACK whose largest number was `largest`: older ranges need not be repeated
    /// (RFC 9000 §13.2.4). They stay remembered, so that duplicates are still recognised.
    pub(crate) fn on_ack_acked(&mut self, largest: u64) {
        if largest >= self.proof_from {
            self.confirmed = self.confirmed.max(largest + 1);
        }
    }
}
