//! Health of a path: the evidence of whether it works.
//!
//! A path works if its ack-eliciting packets are acknowledged. Other packets that arrive on it do not count,
//! because they prove nothing about the direction to the peer. A path is silent if its oldest unacknowledged
//! packet was sent a probe timeout ago (RFC 9002 §6.2.1). If the timeout ran from the newest packet, it would
//! be postponed again and again while the sender keeps sending. If it ran from the last acknowledgment, it
//! would allow the path one round trip too many.

use std::time::Duration;

use anabranch_wire::{PathId, Time};

use super::state::PathState;

/// Divisor of the probe timeout. The quotient is the time for which a path must be quiet before it counts as
/// silent.
const QUIET_PART: u32 = 4;

/// Minimum time without packets that counts as quiet. Links that deliver in bursts, such as Wi-Fi, pause
/// between the bursts.
const MIN_QUIET: Duration = Duration::from_millis(10);
/// Maximum time by which arriving packets postpone the deadline of a path with an overdue acknowledgment; the
/// PTO if that is longer. The queueing delay may grow by this much between two RTT samples.
const PATIENCE: Duration = Duration::from_millis(120);

/// Health of one path. Only connections with several paths keep it.
#[derive(Debug)]
pub(crate) struct Health {
    /// The path.
    pub(crate) path: PathId,
    /// Time of the last arrival of a packet on the path, or of an acknowledgment of the path's packets.
    heard: Time,
    /// Time of the last sign of life: an acknowledgment of the path's own packets, or the arrival of an
    /// ack-eliciting packet.
    lived: Time,
    /// Send time of the oldest unacknowledged ack-eliciting packet.
    asked: Option<Time>,
    /// Time at which the path last began to work. Packets sent before that time prove nothing about the time
    /// since.
    works_since: Time,
    /// Time at which the path began to fail; meaningless while it does not fail.
    pub(crate) failing_since: Time,
    /// Value of `asked` when the path began to fail.
    silent_since: Option<Time>,
    /// Order below which all packets have been sent again on other paths. Their loss no longer matters.
    pub(crate) moved: u64,
    /// `true` if the application wants the path to be available, not a backup. While the path fails, this end
    /// may still announce it as a backup.
    pub(crate) wanted: bool,
    /// State that was last reported to the application.
    pub(crate) reported: PathState,
    /// Time of the last probe that was due because the path had no traffic.
    looked_after: Time,
    /// The connection's traffic counter at the time of that probe.
    traffic: u64,
    /// Time at which the last keep-alive PING of the path was sent.
    pinged: Time,
}

impl Health {
    /// Creates the health of a path on which the peer has just responded.
    pub(crate) fn new(path: PathId, now: Time) -> Self {
        Self {
            path,
            heard: now,
            lived: now,
            asked: None,
            works_since: now,
            failing_since: now,
            silent_since: None,
            moved: 0,
            wanted: true,
            reported: PathState::Open,
            looked_after: now,
            traffic: 0,
            pinged: now,
        }
    }

    /// Records that a packet arrived on the path.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// Records that an ack-eliciting packet arrived on the path.
    pub(crate) fn on_lives(&mut self, now: Time) {
        self.lived = now;
    }

    /// Records that packets were acknowledged. `oldest` is the send time of the oldest packet still in
    /// flight.
    pub(crate) fn on_acked(&mut self, now: Time, oldest: Option<Time>) {
        self.heard = now;
        self.lived = now;
        self.asked = oldest.map(|oldest| oldest.max(self.works_since));
    }

    /// Records that the peer has responded on addresses under validation. Unacknowledged packets count as
    /// sent now, because the addresses may not have worked before.
    pub(crate) fn on_validated(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = self.asked.map(|_| now);
    }

    /// Records that a failing path has responded.
    pub(crate) fn on_works_again(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = None;
    }

    /// Records that an ack-eliciting packet was sent.
    pub(crate) fn on_asked(&mut self, now: Time) {
        self.asked.get_or_insert(now);
    }

    /// Records that the path begins to fail.
    pub(crate) fn on_failing(&mut self, now: Time) {
        self.failing_since = now;
        self.silent_since = self.asked;
    }

    /// Returns the send time of the oldest packet that was unacknowledged when the path last began to fail.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent_since
    }

    /// Returns the send time of the oldest unacknowledged ack-eliciting packet.
    pub(crate) fn asked(&self) -> Option<Time> {
        self.asked
    }

    /// Returns the time at which the path counts as silent: `pto` after its oldest unacknowledged packet was
    /// sent. Ack-eliciting packets that arrive on the path postpone this time, by at most another `pto` or
    /// [`PATIENCE`], whichever is longer. The postponement is needed because an end that mostly receives
    /// takes few RTT samples, and notices late how a queue has grown. It is bounded because arriving packets
    /// do not show that the peer receives anything on the path.
    pub(crate) fn silent_at(&self, pto: Duration) -> Option<Time> {
        let due = self.asked? + pto;
        Some(due.max(self.lived + (pto / QUIET_PART).max(MIN_QUIET)).min(due + pto.max(PATIENCE)))
    }

    /// Returns whether the path is more likely to work than another one, whose oldest unacknowledged packet
    /// was sent at `asked` and which counts as silent at `deadline`. One of three conditions suffices: none
    /// of the path's own packets is unacknowledged; the path showed a sign of life since `asked`; or its
    /// oldest unacknowledged packet was sent less than a round trip (`rtt`) before the deadline. If both
    /// paths are equally silent, the cause is the peer or the network behind both, and moving data between
    /// them would not help.
    pub(crate) fn outlives(&self, asked: Time, deadline: Time, rtt: Duration) -> bool {
        self.asked.is_none_or(|own| self.lived >= asked || deadline < own + rtt)
    }

    /// Returns the time at which to probe the path if nothing arrives on it for `timeout`.
    pub(crate) fn look_after(&self, timeout: Duration) -> Time {
        self.heard.max(self.looked_after) + timeout
    }

    /// Records that a probe for lack of traffic is due. Returns whether the connection's `traffic` counter
    /// has changed since the last one. If not, no probe is sent, so that probes do not keep an idle
    /// connection alive.
    pub(crate) fn on_looked_after(&mut self, now: Time, traffic: u64) -> bool {
        self.looked_after = now;
        std::mem::replace(&mut self.traffic, traffic) != traffic
    }

    /// Returns the time at which a PING must be sent to keep the path alive.
    pub(crate) fn keep_alive(&self, interval: Duration) -> Time {
        self.heard.max(self.pinged) + interval
    }

    /// Records that the keep-alive PING is sent.
    pub(crate) fn on_keep_alive(&mut self, now: Time) {
        self.pinged = now;
    }
}

#[cfg(test)]
mod tests;
