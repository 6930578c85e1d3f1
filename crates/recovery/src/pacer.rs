//! Pacing (RFC 9002 §7.7) with a token bucket. A burst is large enough to send many packets with one system
//! call, and too small to fill a queue.

use core::time::Duration;

use anabranch_wire::Time;

use crate::config::PacingBurst;
use crate::rate::{bytes_in, per_second};

/// Number of packets that may always leave in one burst (RFC 9002 §7.7, the initial window).
const MIN_BURST_PACKETS: u64 = 10;

/// Time at the pacing rate whose bytes may be sent in one burst. On fast paths, such a burst compensates for
/// coarse timers.
const BURST_TIME: Duration = Duration::from_millis(2);

/// Desired time between wake-ups of a waiting sender.
const WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum number of bytes for which a sender waits until it has tokens: the size of one segmented send.
const WAKE_BYTES: u64 = 64 * 1024;

/// Token bucket of one path.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    enabled: bool,
    burst: PacingBurst,
    /// Number of bytes that may be sent at `updated`.
    tokens: u64,
    updated: Time,
}

impl Pacer {
    pub(crate) fn new(enabled: bool, burst: PacingBurst, now: Time) -> Self {
        Self { enabled, burst, tokens: u64::MAX, updated: now }
    }

    /// Returns the number of bytes that may be sent now, if the bucket was last filled at `now` and contains
    /// a full packet. This holds for most packets of a batch and needs no arithmetic. Returns `None`
    /// otherwise.
    pub(crate) fn at_hand(&self, now: Time, mtu: u64) -> Option<u64> {
        (self.enabled && self.updated == now && self.tokens >= mtu && self.tokens != u64::MAX)
            .then_some(self.tokens)
    }

    /// Returns the number of bytes that may be sent now, or the time at which to ask again. `rate` is in
    /// bytes per second; `window`, the congestion window, is in bytes.
    pub(crate) fn budget(&mut self, now: Time, rate: u64, window: u64, mtu: u64) -> Result<u64, Time> {
        if !self.enabled {
            return Ok(u64::MAX);
        }
        let rate = rate.max(1);
        let (capacity, goal) = match self.burst {
            PacingBurst::Timely => {
                let goal = bytes_in(rate, WAKE_INTERVAL).clamp(mtu, WAKE_BYTES.max(mtu));
                ((MIN_BURST_PACKETS * mtu).max(bytes_in(rate, BURST_TIME)), goal)
            }
            PacingBurst::Packets(most) => ((window / 4).clamp(2 * mtu, u64::from(most.max(2)) * mtu), mtu),
        };
        let gained = bytes_in(rate, now - self.updated);
        // `updated` advances only when at least one whole byte was gained, so that fractions are not lost.
        if gained > 0 || self.tokens > capacity {
            self.tokens = self.tokens.saturating_add(gained).min(capacity);
            self.updated = now;
        }
        if self.tokens >= mtu {
            return Ok(self.tokens);
        }
        let missing = u128::from(goal - self.tokens.min(goal));
        let nanos = (missing * 1_000_000_000).div_ceil(u128::from(rate));
        Err(self.updated + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Removes the tokens of `bytes` that were sent.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }
}

/// Returns the rate, in bytes per second, that sends `factor` (numerator, denominator) windows in one round
/// trip (RFC 9002 §7.7).
pub(crate) fn rate_of(window: u64, rtt: Duration, factor: (u64, u64)) -> u64 {
    per_second(window.saturating_mul(factor.0) / factor.1, rtt.max(Duration::from_micros(1)))
}

#[cfg(test)]
mod tests;
