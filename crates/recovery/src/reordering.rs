//! Reordering on a path, learned from spurious losses (RFC 9002 §6.1.1, similar to RFC 8985 §7).

use core::time::Duration;

use anabranch_wire::Time;

use crate::rtt::{GRANULARITY, Rtt};

/// Maximum packet threshold after spurious losses.
pub(crate) const MAX_PACKET_THRESHOLD: u64 = 300;

/// Maximum addition to the time threshold after spurious losses, in eighths of the round-trip time.
pub(crate) const MAX_EXTRA_EIGHTHS: u32 = 7;

/// Number of congestion events without a spurious loss after which the initial thresholds are restored (RFC
/// 8985 §7.1).
const FORGET_AFTER: u32 = 16;

/// Current loss thresholds.
#[derive(Clone, Debug)]
pub(crate) struct Reordering {
    initial_packets: u64,
    packets: u64,
    fraction: (u32, u32),
    extra_eighths: u32,
    raised_at: Option<Time>,
    orderly_events: u32,
}

impl Reordering {
    pub(crate) fn new(packets: u64, fraction: (u32, u32)) -> Self {
        Self {
            initial_packets: packets.max(1),
            packets: packets.max(1),
            fraction: (fraction.0, fraction.1.max(1)),
            extra_eighths: 0,
            raised_at: None,
            orderly_events: 0,
        }
    }

    /// Returns the packet reordering threshold, in packets (RFC 9002 §6.1.1).
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the time threshold: a packet is lost this long after it was sent, if a newer one was
    /// acknowledged (RFC 9002 §6.1.2).
    pub(crate) fn delay(&self, rtt: &Rtt) -> Duration {
        let base = rtt.loss_base();
        let delay = base * self.fraction.0 / self.fraction.1 + base / 8 * self.extra_eighths;
        delay.max(GRANULARITY)
    }

    /// Raises the thresholds after a spurious loss: a packet declared lost was acknowledged, and its order is
    /// `distance` below the largest acknowledged one.
    pub(crate) fn on_spurious(&mut self, now: Time, distance: u64, rtt: &Rtt) {
        self.orderly_events = 0;
        self.packets = (distance + 1).clamp(self.packets, MAX_PACKET_THRESHOLD.max(self.initial_packets));
        // The time threshold is raised by one step per round trip, because all packets of one flight show the
        // same reordering.
        if self.raised_at.is_none_or(|at| now - at >= rtt.smoothed()) {
            self.raised_at = Some(now);
            self.extra_eighths = (self.extra_eighths + 1).min(MAX_EXTRA_EIGHTHS);
        }
    }

    /// Counts a congestion event. Restores the initial thresholds after more than [`FORGET_AFTER`] events
    /// without a spurious loss.
    pub(crate) fn on_congestion(&mut self) {
        self.orderly_events += 1;
        if self.orderly_events > FORGET_AFTER {
            self.packets = self.initial_packets;
            self.extra_eighths = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_put_losses_off_for_good() {
        let rtt = Rtt::new(Duration::from_millis(80));
        let mut reordering = Reordering::new(3, (9, 8));
        for round in 0..1_000 {
            reordering.on_spurious(Time::from_millis(1_000 * round), 1 << 40, &rtt);
        }
        assert_eq!(reordering.packets(), MAX_PACKET_THRESHOLD);
        assert_eq!(reordering.extra_eighths, MAX_EXTRA_EIGHTHS);
        assert_eq!(reordering.delay(&rtt), Duration::from_millis(80 * 9 / 8 + 70));
    }
}
