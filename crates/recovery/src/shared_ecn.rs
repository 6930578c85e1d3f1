//! ECN counts of a packet number space that several paths share.

use anabranch_wire::EcnCounts;

/// Validation of the ECN counts that a peer reports for packets of several paths (RFC 9000 §13.4.2.1).
///
/// An ACK on a faster path may overtake an earlier one, so counts may decrease without an error. Totals are
/// therefore compared, not differences between ACKs. The largest counts received belong to the newest ACK,
/// and they cover all packets that earlier ACKs acknowledged.
#[derive(Clone, Debug, Default)]
pub struct SharedEcn {
    /// Number of packets sent with ECT(0).
    sent: u64,
    /// Number of packets sent with ECT(0) and acknowledged.
    acked: u64,
    /// Largest counts reported.
    counts: EcnCounts,
    failed: bool,
}

/// Result of validating an ACK's counts, for the paths whose packets the ACK acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnFinding {
    /// No new CE marks.
    Nothing,
    /// Number of packets newly reported as received with CE.
    Congestion(u64),
    /// The counts are wrong, and marking must stop on all paths.
    Failed,
}

impl SharedEcn {
    /// Creates the validation after `sent` marked packets.
    pub fn new(sent: u64) -> Self {
        Self { sent, ..Self::default() }
    }

    /// Counts a packet sent with ECT(0).
    pub fn on_sent(&mut self) {
        self.sent += 1;
    }

    /// Returns whether validation has failed. A failure is permanent.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Validates the counts of an ACK that newly acknowledged `marked` packets sent with ECT(0), on any path.
    pub fn on_ack(&mut self, marked: u64, counts: Option<EcnCounts>) -> EcnFinding {
        if self.failed {
            return EcnFinding::Nothing;
        }
        self.acked += marked;
        let before = self.counts.ce;
        let reported = counts.unwrap_or_default();
        self.counts.ect0 = self.counts.ect0.max(reported.ect0);
        self.counts.ect1 = self.counts.ect1.max(reported.ect1);
        self.counts.ce = self.counts.ce.max(before.max(reported.ce));
        let received = self.counts.ect0.saturating_add(self.counts.ce);
        // Either marked packets were received and the peer or the network hides it, or the counts contain
        // marks that were never set.
        let hidden = received < self.acked || counts.is_none() && marked > 0;
        if hidden || received > self.sent || self.counts.ect1 > 0 {
            self.failed = true;
            return EcnFinding::Failed;
        }
        match self.counts.ce - before {
            0 => EcnFinding::Nothing,
            more => EcnFinding::Congestion(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1: 0, ce })
    }

    fn sent(packets: u64) -> SharedEcn {
        let mut ecn = SharedEcn::new(1);
        (1..packets).for_each(|_| ecn.on_sent());
        ecn
    }

    #[test]
    fn an_overtaken_ack_is_no_fault() {
        let mut ecn = sent(10);
        assert_eq!(ecn.on_ack(4, counts(6, 1)), EcnFinding::Congestion(1));
        assert_eq!(ecn.on_ack(3, counts(4, 0)), EcnFinding::Nothing, "written before the other one");
        assert_eq!(ecn.on_ack(3, counts(8, 2)), EcnFinding::Congestion(1));
        assert!(!ecn.has_failed());
    }

    #[test]
    fn wrong_counts_are_found() {
        for (marked, reported, what) in [
            (4, None, "no counts"),
            (4, counts(3, 0), "fewer than acknowledged"),
            (4, counts(11, 0), "more than sent"),
            (4, Some(EcnCounts { ect0: 4, ect1: 1, ce: 0 }), "a mark that was never set"),
            (4, counts(u64::MAX, u64::MAX), "absurd"),
        ] {
            let mut ecn = sent(10);
            assert_eq!(ecn.on_ack(marked, reported), EcnFinding::Failed, "{what}");
            assert!(ecn.has_failed());
            assert_eq!(ecn.on_ack(1, counts(9, 9)), EcnFinding::Nothing, "{what}, once");
        }
        assert_eq!(sent(10).on_ack(0, None), EcnFinding::Nothing, "unmarked packets need no counts");
    }
}
