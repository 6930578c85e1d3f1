//! ECN validation of a path (RFC 9000 §13.4.2, Appendix A.4).

use core::time::Duration;

use anabranch_wire::{EcnCounts, SpaceId, Time};

/// Packets marked while testing (RFC 9000 Appendix A.4).
const TESTING_PACKETS: u32 = 10;

/// Probe timeouts the testing lasts at most (RFC 9000 Appendix A.4).
const TESTING_PTOS: u32 = 3;

/// State of ECN on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are marked to see what happens.
    Testing,
    /// Enough were marked; unmarked packets go out until the answer is in.
    Unknown,
    /// Marks arrive and are reported: all packets are marked.
    Capable,
    /// Marks are dropped, changed or not reported (or ECN is switched off): none are set.
    Failed,
}

/// Meaning of an acknowledgment's ECN counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// So many more packets than before were received with CE.
    Congestion(u64),
    Failed,
}

/// Validates ECN on one path.
#[derive(Clone, Debug)]
pub(crate) struct Ecn {
    state: EcnState,
    testing_since: Option<Time>,
    sent_testing: u32,
    lost_testing: u32,
    /// Packets sent with ECT(0) by space.
    sent: [u64; 3],
    /// Counts reported by the peer by space.
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

    /// Confirms that marks arrive, which somebody else has found.
    pub(crate) fn confirm(&mut self) {
        if self.state != EcnState::Failed {
            self.state = EcnState::Capable;
        }
    }

    /// Returns whether the next packet is to be marked.
    pub(crate) fn marks(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::Capable)
    }

    /// Counts a marked packet that leaves.
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

    /// Counts a lost packet that was marked; returns whether the path thereby proves to drop marked packets.
    pub(crate) fn on_lost(&mut self) -> bool {
        if !matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            return false;
        }
        self.lost_testing += 1;
        // RFC 9000 §13.4.2: if all marked packets of the test are lost, marking is given up.
        if self.state == EcnState::Unknown && self.lost_testing >= self.sent_testing {
            self.state = EcnState::Failed;
            return true;
        }
        false
    }

    /// Judges an acknowledgment that raised the largest acknowledged packet of `space` and newly acknowledged
    /// `marked` packets that left with ECT(0). Others must not be passed: reordered counts may run backwards.
    pub(crate) fn on_ack(&mut self, space: SpaceId, marked: u64, counts: Option<EcnCounts>) -> Verdict {
        if self.state == EcnState::Failed {
            // Where counting starts should another path be tested later.
            self.counts[space as usize] = counts.unwrap_or(self.counts[space as usize]);
            return Verdict::Nothing;
        }
        let Some(counts) = counts else {
            // RFC 9000 §13.4.2.1: marked packets were received, yet the peer (or the path) hides it.
            return if marked > 0 { self.fail() } else { Verdict::Nothing };
        };
        let before = self.counts[space as usize];
        let (Some(ect0), Some(ce)) = (counts.ect0.checked_sub(before.ect0), counts.ce.checked_sub(before.ce))
        else {
            return self.fail();
        };
        let sent = self.sent[space as usize];
        // RFC 9000 §13.4.2.1: every newly acknowledged marked packet shows up as ECT(0) or CE; nothing shows
        // up as ECT(1), which is never sent; and no count exceeds what was sent.
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

    /// Restarts the test after the path changed (RFC 9000 §9.4). The peer's counts go on.
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
