//! Persistent congestion (RFC 9002 §7.6): losses over so long a time that the old window is meaningless.

use core::time::Duration;

use anabranch_wire::Time;

use crate::rtt::Rtt;

/// Minimum duration of a run of losses, in probe timeouts (RFC 9002 §7.6.1, kPersistentCongestionThreshold).
const THRESHOLD: u32 = 3;

/// Current run of lost ack-eliciting packets of one space, without an acknowledged packet in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossRun {
    first: Option<Time>,
}

impl LossRun {
    /// Returns the minimum duration of a run.
    pub(crate) fn duration(rtt: &Rtt, max_ack_delay: Duration) -> Duration {
        (rtt.pto_base() + max_ack_delay) * THRESHOLD
    }

    /// Ends the run because a packet was acknowledged.
    pub(crate) fn broken(&mut self) {
        self.first = None;
    }

    /// Adds a lost ack-eliciting packet that was sent at `sent`. Returns whether the congestion is now
    /// persistent.
    pub(crate) fn lost(&mut self, sent: Time, rtt: &Rtt, max_ack_delay: Duration) -> bool {
        // RFC 9002 §7.6.2: only packets sent after the first RTT sample count.
        if rtt.first_sample().is_none_or(|first| sent <= first) {
            return false;
        }
        let first = *self.first.get_or_insert(sent);
        let persistent = sent - first >= Self::duration(rtt, max_ack_delay);
        if persistent {
            self.first = None;
        }
        persistent
    }
}
