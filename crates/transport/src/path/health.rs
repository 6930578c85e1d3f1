//! Health of a path: the evidence of whether it works.
//!
//! A path works if its ack-eliciting packets are acknowledged. Other packets that arrive on it do not count,
//! because they prove nothing about the direction to the peer. The probe timeout limits the time for which a
//! path may owe an answer (RFC 9002 §6.2.1). Here it runs from the *oldest* unacknowledged packet. A sender
//! that keeps sending would postpone a timer that runs from the newest packet again and again. A timer that
//! runs from the last acknowledgment allows the path a round trip more than it needs.

use std::time::Duration;

use anabranch_wire::{PathId, Time};

use super::state::PathState;

/// Divisor of the probe timeout that yields the time for which a path must be quiet before it can be called
/// silent.
const QUIET_PART: u32 = 4;

/// Shortest time without packets that is called quiet: links that carry bursts, as Wi-Fi does, pause between
/// them.
const MIN_QUIET: Duration = Duration::from_millis(10);
/// Least time that packets of the peer put off what is overdue: so much a queue may grow between two
/// measurements.
const PATIENCE: Duration = Duration::from_millis(120);

/// One path's health, kept by connections that have several paths.
#[derive(Debug)]
pub(crate) struct Health {
    /// The path.
    pub(crate) path: PathId,
    /// Time at which the path was last heard.
    heard: Time,
    /// Time of the last sign of life: an acknowledgment of the path's own packets, or an ack-eliciting packet
    /// on the path.
    lived: Time,
    /// Since when an acknowledgment is owed: when the oldest packet left that has none and asks for one.
    asked: Option<Time>,
    /// Time at which the path last began to work. Packets sent before it prove nothing about the time since.
    works_since: Time,
    /// Time at which the path began to fail; meaningless while it does not fail.
    pub(crate) failing_since: Time,
    /// Since when an answer was owed when the path began to fail.
    silent_since: Option<Time>,
    /// Packets below this order have been sent again on other paths: their loss means nothing more.
    pub(crate) moved: u64,
    /// `true` if the application wants the path to be available and not a backup. While the path fails, this
    /// end may signal otherwise to the peer.
    pub(crate) wanted: bool,
    /// The state that the application knows of.
    pub(crate) reported: PathState,
    /// Time at which the path was last probed because it had no traffic.
    looked_after: Time,
    /// The connection's traffic at that time.
    traffic: u64,
    /// Time at which the last keep-alive PING of the path was sent.
    pinged: Time,
}

impl Health {
    /// Creates the health of a path that has just answered.
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

    /// Notes that a packet arrived on the path.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// Notes that an ack-eliciting packet arrived on the path.
    pub(crate) fn on_lives(&mut self, now: Time) {
        self.lived = now;
    }

    /// Notes that packets were acknowledged; `oldest` is the send time of the oldest packet still in flight.
    pub(crate) fn on_acked(&mut self, now: Time, oldest: Option<Time>) {
        self.heard = now;
        self.lived = now;
        self.asked = oldest.map(|oldest| oldest.max(self.works_since));
    }

    /// Notes that the peer has answered on addresses that were being validated. Answers that the peer owes
    /// count as owed since now, because earlier challenges may have been sent while nothing arrived.
    pub(crate) fn on_validated(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = self.asked.map(|_| now);
    }

    /// Notes that the path, which was failing, has answered.
    pub(crate) fn on_works_again(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = None;
    }

    /// Notes that a packet that asks for an answer was sent.
    pub(crate) fn on_asked(&mut self, now: Time) {
        self.asked.get_or_insert(now);
    }

    /// Notes that the path begins to fail.
    pub(crate) fn on_failing(&mut self, now: Time) {
        self.failing_since = now;
        self.silent_since = self.asked;
    }

    /// Returns the time since which an answer was owed when the path last began to fail.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent_since
    }

    /// Returns the time since which an answer is owed.
    pub(crate) fn asked(&self) -> Option<Time> {
        self.asked
    }

    /// Returns the time at which the path will have owed an acknowledgment for too long, which is after
    /// `pto`. Ack-eliciting packets that arrive on the path postpone it by up to another `pto`, or by up to
    /// [`PATIENCE`] if that is longer. A peer whose own packets are not acknowledged stops sending them. An
    /// end that mostly receives measures the path so rarely that it notices late how a queue has grown.
    pub(crate) fn silent_at(&self, pto: Duration) -> Option<Time> {
        let due = self.asked? + pto;
        Some(due.max(self.lived + (pto / QUIET_PART).max(MIN_QUIET)).min(due + pto.max(PATIENCE)))
    }

    /// Returns whether the path can be trusted more than one that was asked at `asked` and is called silent
    /// at `deadline`. It can if it owes no answer, has been heard since, or was asked less than a round trip
    /// (`rtt`) before the deadline. If both paths are silent for as long, the cause is the peer or the
    /// network behind both. Moving data from one to the other would then not help.
    pub(crate) fn outlives(&self, asked: Time, deadline: Time, rtt: Duration) -> bool {
        self.asked.is_none_or(|own| self.lived >= asked || deadline < own + rtt)
    }

    /// Returns the time at which to ask the path for a sign of life, if it stays without traffic for
    /// `timeout`.
    pub(crate) fn look_after(&self, timeout: Duration) -> Time {
        self.heard.max(self.looked_after) + timeout
    }

    /// Notes that this time has come. Returns whether the connection has been in use since the last time,
    /// judging by its `traffic` so far. Probes of paths do not keep an idle connection alive.
    pub(crate) fn on_looked_after(&mut self, now: Time, traffic: u64) -> bool {
        self.looked_after = now;
        std::mem::replace(&mut self.traffic, traffic) != traffic
    }

    /// Returns the time at which a PING must be sent to keep the path alive.
    pub(crate) fn keep_alive(&self, interval: Duration) -> Time {
        self.heard.max(self.pinged) + interval
    }

    /// Notes that the keep-alive PING is sent.
    pub(crate) fn on_keep_alive(&mut self, now: Time) {
        self.pinged = now;
    }
}

#[cfg(test)]
mod tests;
