//! Limit on the bytes in flight that keeps the path's queue short, for connections that carry calls beside bulk data.
//! Congestion controllers alone fill the path's queue, at least while they search for bandwidth.

use core::time::Duration;

use anabranch_wire::Time;

use super::Recovery;
use crate::congestion::{Controller as _, State};
use crate::rate::{RateSample, bytes_in, per_second};

/// Length of a period in round trips. The delivery rate is the largest one of the present and the previous period.
const ROUNDS: u32 = 4;
/// Packets may queue for this fraction of the minimum round-trip time (1/8) and, below, at least for this time.
const PART: u32 = 8;
/// Moderate queues may last for this fraction of the minimum round-trip time (1/2).
const MODERATE_PART: u32 = 2;
/// Minimum duration of a queue that is allowed.
const LEAST: Duration = Duration::from_millis(2);
/// Maximum of the round-trip time's variation that is allowed for, as a fraction of the minimum round-trip time (1/4). More
/// variation is due to queues.
const VARIANCE: u32 = 4;
/// Round-trip times that exceed the minimum by this fraction of it (1/16) or less show that the path has no queue.
const NEAR: u32 = 16;
/// Time after the last question whether a packet would queue in which the sender counts as one that keeps queues short.
const ASKING: Duration = Duration::from_secs(1);

/// Limit on the time for which packets queue on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueLimit {
    /// 1/8 of the minimum round-trip time.
    Short,
    /// 1/8 of the minimum round-trip time, and a whole one in slow start.
    Searching,
    /// Half of the minimum round-trip time, also in slow start: a path stays busy although acknowledgments are delayed, and its queue
    /// does not overflow.
    Moderate,
}

/// Largest delivery rate of the present and the previous period, in bytes per second. A period begins with a sample, so after a
/// pause the previous one is the last one before it. The rates of that time protect against first samples that are too low:
/// with these, the limit on the bytes in flight would keep the following samples low, too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    current: u64,
    previous: u64,
    until: Time,
    /// Time at which the sender last asked whether a packet would queue; `None` if it never did.
    asked: Option<Time>,
}

impl Delivery {
    /// Records a rate sample of a path whose round-trip time is `round_trip`.
    pub(super) fn record(&mut self, now: Time, sample: &RateSample, round_trip: Duration) {
        let Some(rate) = sample.rate else { return };
        if sample.app_limited && rate <= self.rate() {
            return;
        }
        if now >= self.until {
            self.previous = self.current;
            self.current = 0;
            self.until = now + round_trip * ROUNDS;
        }
        self.current = self.current.max(rate);
    }

    fn rate(&self) -> u64 {
        self.current.max(self.previous)
    }
}

impl<T: Clone> Recovery<T> {
    /// Returns whether another packet would queue on the path for longer than `limit` allows, but at least for 2 ms.
    pub fn would_queue(&mut self, now: Time, limit: QueueLimit) -> bool {
        self.delivery.asked = Some(now);
        let rate = self.delivery.rate();
        if rate == 0 {
            return false;
        }
        let empty = self.rtt.min();
        let is_slow_start = matches!(
            self.congestion.state(),
            State::Startup | State::SlowStart | State::ConservativeSlowStart
        );
        let queue = match limit {
            // In slow start the rate may double in a round trip.
            QueueLimit::Searching if is_slow_start => empty,
            QueueLimit::Moderate => empty / MODERATE_PART,
            QueueLimit::Searching | QueueLimit::Short => empty / PART,
        };
        let time = empty + queue.max(LEAST) + self.rtt.variance().min(empty / VARIANCE);
        self.bytes_in_flight >= bytes_in(rate, time) + 2 * u64::from(self.mtu.current())
    }

    /// Tells the congestion controller that the path's queue is short, if the sender keeps it so and `rtt_sample` shows it.
    pub(super) fn note_short_queue(&mut self, now: Time, rtt_sample: Option<Duration>) {
        let keeps = self.delivery.asked.is_some_and(|asked| now - asked < ASKING);
        let limit = self.rtt.min() + self.rtt.min() / NEAR;
        if keeps && rtt_sample.is_some_and(|sample| sample <= limit) {
            self.congestion.on_short_queue(now);
        }
    }

    /// Returns the largest delivery rate of the present and the previous period, in bytes per second. Without a sample, returns
    /// the rate that the congestion window permits.
    pub fn delivery_rate(&self) -> u64 {
        match self.delivery.rate() {
            0 => per_second(self.window(), self.rtt.smoothed()),
            rate => rate,
        }
    }

    /// Records that the sender keeps the queue short although the congestion window has room. The window is underutilized then,
    /// and does not grow (RFC 9002 §7.8).
    pub fn keep_short(&mut self) {
        self.app_limited = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: u64, app_limited: bool) -> RateSample {
        RateSample { rate: Some(rate), app_limited, ..RateSample::default() }
    }

    #[test]
    fn the_largest_rate_of_some_round_trips_counts() {
        let round = Duration::from_millis(50);
        let mut delivery = Delivery::default();
        let at = Time::from_millis;
        delivery.record(at(1_000), &sample(1_000, false), round);
        delivery.record(at(1_050), &sample(400, false), round);
        delivery.record(at(1_100), &sample(900, true), round);
        assert_eq!(delivery.rate(), 1_000);
        delivery.record(at(1_201), &sample(500, false), round);
        assert_eq!(delivery.rate(), 1_000, "of the time before");
        delivery.record(at(1_402), &sample(500, false), round);
        assert_eq!(delivery.rate(), 500);
        // Application-limited samples do not lower the rate.
        for later in 0..100 {
            delivery.record(at(2_000 + 100 * later), &sample(10, true), round);
        }
        assert_eq!(delivery.rate(), 500);
        delivery.record(at(20_000), &sample(800, true), round);
        assert_eq!(delivery.rate(), 800);
    }
}
