//! Pacing (RFC 9002 §7.7): a token bucket that lets bursts through which are large enough to be sent in one
//! system call and small enough not to fill a queue.

use core::time::Duration;

use anabranch_wire::Time;

use crate::config::PacingBurst;
use crate::rate::{bytes_in, per_second};

/// Packets that may always leave in one burst (RFC 9002 §7.7, the initial window).
const MIN_BURST_PACKETS: u64 = 10;

/// Time whose worth of data may leave in one burst on fast paths, so that coarse timers do not slow them
/// down.
const BURST_TIME: Duration = Duration::from_millis(2);

/// Time between wake-ups that a waiting sender aims at.
const WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// Largest burst a sender wakes up for; what one segmented send can carry.
const WAKE_BYTES: u64 = 64 * 1024;

/// The token bucket of one path.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    enabled: bool,
    burst: PacingBurst,
    /// Bytes that may leave at `updated`.
    tokens: u64,
    updated: Time,
}

impl Pacer {
    pub(crate) fn new(enabled: bool, burst: PacingBurst, now: Time) -> Self {
        Self { enabled, burst, tokens: u64::MAX, updated: now }
    }

    /// Returns the bytes that may leave now if that is clear without arithmetic: the bucket was filled at
    /// this very time, as it is for all but the first packet of a batch.
    pub(crate) fn at_hand(&self, now: Time, mtu: u64) -> Option<u64> {
        (self.enabled && self.updated == now && self.tokens >= mtu && self.tokens != u64::MAX)
            .then_some(self.tokens)
    }

    /// Returns the bytes that may leave now at `rate` bytes per second under a congestion window of `window`
    /// bytes, or the time at which to ask again.
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
        // Fractions of a byte are kept by leaving the clock where it is until whole bytes come out.
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

    /// Counts `bytes` that left.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }
}

/// Returns the rate that spreads `factor` = numerator/denominator windows over a round trip (RFC 9002 §7.7).
pub(crate) fn rate_of(window: u64, rtt: Duration, factor: (u64, u64)) -> u64 {
    per_second(window.saturating_mul(factor.0) / factor.1, rtt.max(Duration::from_micros(1)))
}

#[cfg(test)]
mod tests;
