//! Persistent congestion (RFC 9002 §7.6): a run of losses so long that the old window means nothing.

use core::time::Duration;

use anabranch_wire::Time;

use crate::rtt::Rtt;

/// Probe timeouts a run of losses must span (RFC 9002 §7.6.1, kPersistentCongestionThreshold).
const THRESHOLD: u32 = 3;

/// The current run of lost ack-eliciting packets of one space, without an acknowledged one in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossRun {
    first: Option<Time>,
}

impl LossRun {
    /// Returns the time that a run must span.
    pub(crate) fn duration(rtt: &Rtt, max_ack_delay: Duration) -> Duration {
        (rtt.pto_base() + max_ack_delay) * THRESHOLD
    }

    /// Ends the run because a packet was acknowledged.
    pub(crate) fn broken(&mut self) {
        self.first = None;
    }

    /// Adds a lost ack-eliciting packet sent at `sent`; whether that makes the congestion persistent.
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
