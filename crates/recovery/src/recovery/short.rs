//! Short queue: how much may be in flight so that packets hardly queue on the path, for connections that carry calls beside
//! bulk data. Controllers fill the path's queue, all of it when they search for bandwidth.

use core::time::Duration;

use anabranch_wire::Time;

use super::Recovery;
use crate::congestion::{Controller as _, State};
use crate::rate::{RateSample, bytes_in, per_second};

/// Number of round trips in which the largest delivery rate counts.
const ROUNDS: u32 = 4;
/// Part of the minimum round-trip time, and the least time, that packets may queue.
const PART: u32 = 8;
const LEAST: Duration = Duration::from_millis(2);
/// Part of the minimum round-trip time that counts as its variation at most. A longer one is due to queues.
const VARIANCE: u32 = 4;

/// Largest delivery rate lately, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    current: u64,
    previous: u64,
    until: Time,
}

impl Delivery {
    /// Records a sample on a path with this round-trip time.
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
    /// Returns whether another packet would queue on the path for longer than a small part of its round-trip time. If the sender
    /// `searches` for bandwidth, a whole round trip is allowed until the controller has found it.
    pub fn would_queue(&self, searches: bool) -> bool {
        let rate = self.delivery.rate();
        if rate == 0 {
            return false;
        }
        let empty = self.rtt.min();
        let queue = match self.congestion.state() {
            // The rate doubles in a round trip.
            State::Startup | State::SlowStart | State::ConservativeSlowStart if searches => empty,
            _ => empty / PART,
        };
        let time = empty + queue.max(LEAST) + self.rtt.variance().min(empty / VARIANCE);
        self.bytes_in_flight >= bytes_in(rate, time) + 2 * u64::from(self.mtu.current())
    }

    /// Returns the delivery rate in bytes per second: the largest one lately, or what the window permits if there was none.
    pub fn delivery_rate(&self) -> u64 {
        match self.delivery.rate() {
            0 => per_second(self.window(), self.rtt.smoothed()),
            rate => rate,
        }
    }

    /// Records that the sender keeps the queue short although the window has room. The window is not in full use then, and
    /// does not grow (RFC 9002 §7.8).
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
        // A sender without data says little about the path.
        for later in 0..100 {
            delivery.record(at(2_000 + 100 * later), &sample(10, true), round);
        }
        assert_eq!(delivery.rate(), 500);
        delivery.record(at(20_000), &sample(800, true), round);
        assert_eq!(delivery.rate(), 800);
    }
}
