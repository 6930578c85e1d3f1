//! ECN validation of a path (RFC 9000 §13.4.2, Appendix A.4).

use core::time::Duration;

use anabranch_wire::{EcnCounts, SpaceId, Time};

/// Number of packets that are marked during the test (RFC 9000 Appendix A.4).
const TESTING_PACKETS: u32 = 10;

/// Maximum duration of the test, in probe timeouts (RFC 9000 Appendix A.4).
const TESTING_PTOS: u32 = 3;

/// State of ECN on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EcnState {
    /// The first packets are marked, as a test.
    Testing,
    /// The test is over and its result is not yet known. Packets are not marked.
    Unknown,
    /// Marks arrive and are reported. All packets are marked.
    Capable,
    /// Marks are dropped, changed or not reported, or ECN is switched off. No packet is marked.
    Failed,
}

/// Result of validating an acknowledgment's ECN counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// Number of packets newly reported as received with CE.
    Congestion(u64),
    Failed,
}

/// ECN validation of one path.
#[derive(Clone, Debug)]
pub(crate) struct Ecn {
    state: EcnState,
    testing_since: Option<Time>,
    sent_testing: u32,
    lost_testing: u32,
    /// Number of packets sent with ECT(0), for each space.
    sent: [u64; 3],
    /// Counts that the peer reported, for each space.
    counts: [EcnCounts; 3],
}

impl Ecn {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            state: if enabled { EcnState::Testing } else { EcnState::Failed },
            testing_since: None,
            sent_testing: 0,
            lost_testing: 0,
            sent: [0; 3],
            counts: [EcnCounts::default(); 3],
        }
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Returns the number of marked packets sent in `space`.
    pub(crate) fn sent(&self, space: SpaceId) -> u64 {
        self.sent[space as usize]
    }

    /// Records that marks arrive on the path, as [`SharedEcn`](crate::SharedEcn) has found.
    pub(crate) fn confirm(&mut self) {
        if self.state != EcnState::Failed {
            self.state = EcnState::Capable;
        }
    }

    /// Returns whether the next packet is marked.
    pub(crate) fn marks(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::Capable)
    }

    /// Counts a marked packet that is sent.
    pub(crate) fn on_sent(&mut self, now: Time, space: SpaceId, pto: Duration) {
        self.sent[space as usize] += 1;
        if self.state != EcnState::Testing {
            return;
        }
        self.sent_testing += 1;
        let since = *self.testing_since.get_or_insert(now);
        if self.sent_testing >= TESTING_PACKETS || now - since > pto * TESTING_PTOS {
            self.state = EcnState::Unknown;
        }
    }

    /// Counts a lost packet that was marked. Returns whether the path has proved to drop marked packets.
    pub(crate) fn on_lost(&mut self) -> bool {
        if !matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            return false;
        }
        self.lost_testing += 1;
        // RFC 9000 §13.4.2: if all marked packets of the test are lost, marking is disabled.
        if self.state == EcnState::Unknown && self.lost_testing >= self.sent_testing {
            self.state = EcnState::Failed;
            return true;
        }
        false
    }

    /// Validates the counts of an ACK that raised the largest acknowledged packet of `space` and newly
    /// acknowledged `marked` packets sent with ECT(0). Other ACKs must not be passed: when ACKs are
    /// reordered, counts may decrease.
    pub(crate) fn on_ack(&mut self, space: SpaceId, marked: u64, counts: Option<EcnCounts>) -> Verdict {
        if self.state == EcnState::Failed {
            // A test after a migration compares later counts with these.
            self.counts[space as usize] = counts.unwrap_or(self.counts[space as usize]);
            return Verdict::Nothing;
        }
        let Some(counts) = counts else {
            // RFC 9000 §13.4.2.1: marked packets were received, but the ACK reports no counts.
            return if marked > 0 { self.fail() } else { Verdict::Nothing };
        };
        let before = self.counts[space as usize];
        let (Some(ect0), Some(ce)) = (counts.ect0.checked_sub(before.ect0), counts.ce.checked_sub(before.ce))
        else {
            return self.fail();
        };
        let sent = self.sent[space as usize];
        // RFC 9000 §13.4.2.1: every newly acknowledged marked packet is counted as ECT(0) or CE. No packet is
        // counted as ECT(1), which is never sent. The counts do not exceed the number of marked packets.
        let bleached = ect0.saturating_add(ce) < marked;
        let remarked = counts.ect1 != before.ect1 || counts.ect0.saturating_add(counts.ce) > sent;
        if bleached || remarked {
            return self.fail();
        }
        self.counts[space as usize] = counts;
        if marked > 0 {
            self.state = EcnState::Capable;
        }
        if ce > 0 { Verdict::Congestion(ce) } else { Verdict::Nothing }
    }

    /// Restarts the test after a migration (RFC 9000 §9.4). The peer's counts are not reset.
    pub(crate) fn restart(&mut self, enabled: bool) {
        self.state = if enabled { EcnState::Testing } else { EcnState::Failed };
        self.testing_since = None;
        self.sent_testing = 0;
        self.lost_testing = 0;
    }

    fn fail(&mut self) -> Verdict {
        self.state = EcnState::Failed;
        Verdict::Failed
    }
}
