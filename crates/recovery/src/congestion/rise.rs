//! End of slow start when the round-trip time has risen by a quarter, as in the sender of the 2022 study of
//! packet number spaces.

use core::time::Duration;

use anabranch_wire::Time;

use super::Acked;
use super::exit::{Exit, Growth};

/// Number of samples that are compared at once, and number of rises that end slow start.
const SCOPE: usize = 7;

/// Minimum time between two samples that are used.
const SPACING: Duration = Duration::from_millis(1);

/// Round-trip time up to which the whole window is halved when slow start ends, because the window has grown
/// too far by then.
const SHORT: Duration = Duration::from_millis(100);

/// Round-trip time above which `window_after` uses this value instead of [`SHORT`].
const LONG: Duration = Duration::from_millis(610);

/// Filter of round-trip time samples. The round-trip time has risen if even the minimum of the latest samples
/// is more than a quarter above the smallest maximum that `SCOPE` consecutive samples have had.
#[derive(Clone, Debug, Default)]
pub struct RttRise {
    /// Latest samples, in a ring.
    samples: [Duration; SCOPE],
    taken: usize,
    last: Option<Time>,
    /// Smallest value so far of the maximum of the latest samples.
    base: Option<Duration>,
    /// Number of samples at which the round-trip time had risen by more than a quarter. A sample at which it
    /// had not risen at all resets the count.
    risen: usize,
}

impl Exit for RttRise {
    fn on_acked(&mut self, ack: &Acked<'_>) -> Growth {
        match ack.rtt_sample {
            Some(sample) if self.has_risen(ack.now, sample) => Growth::Done,
            _ => Growth::By(ack.growth),
        }
    }

    /// Returns half of the window. With a base round-trip time above 100 ms, only the excess is halved: the
    /// part beyond the window that a path of 100 ms would have (of 610 ms if the base is above 610 ms).
    fn window_after(&self, window: u64) -> u64 {
        let base = self.base.unwrap_or_default();
        if base <= SHORT {
            return window / 2;
        }
        let share = if base > LONG { LONG } else { SHORT };
        let kept = u128::from(window) * share.as_nanos() / base.as_nanos();
        window - (window - u64::try_from(kept).unwrap_or(window)) / 2
    }
}

impl RttRise {
    fn has_risen(&mut self, now: Time, sample: Duration) -> bool {
        if self.last.is_some_and(|last| now <= last + SPACING) {
            return false;
        }
        self.last = Some(now);
        self.samples[self.taken % SCOPE] = sample;
        self.taken += 1;
        if self.taken < SCOPE {
            return false;
        }
        let low = self.samples.iter().copied().min().unwrap_or(sample);
        let high = self.samples.iter().copied().max().unwrap_or(sample);
        let base = self.base.map_or(high, |base| base.min(high));
        self.base = Some(base);
        if low > base + base / 4 {
            self.risen += 1;
        } else if low <= base {
            self.risen = 0;
        }
        self.risen >= SCOPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(millis: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut rise = RttRise::default();
        let mut now = Time::ZERO;
        millis.into_iter().position(|sample| {
            now += Duration::from_millis(2);
            rise.has_risen(now, Duration::from_millis(sample))
        })
    }

    #[test]
    fn a_quarter_more_that_lasts_ends_slow_start() {
        let flat = [100; 20];
        assert_eq!(samples(flat.into_iter().chain([125; 30])), None, "not more than a quarter");
        // Seven samples replace all of the old ones, and six more rises complete the count.
        assert_eq!(samples(flat.into_iter().chain([126; 30])), Some(20 + 7 + 6 - 1));
    }

    #[test]
    fn a_spike_does_not() {
        assert_eq!(samples([100; 9].into_iter().chain([500; 12]).chain([100; 9])), None);
        assert_eq!(samples((0..100).map(|n| if n % 7 == 0 { 100 } else { 300 })), None);
    }

    #[test]
    fn the_window_of_the_end_has_grown_too_far() {
        let rise = |millis| RttRise { base: Some(Duration::from_millis(millis)), ..RttRise::default() };
        assert_eq!(rise(20).window_after(100_000), 50_000);
        assert_eq!(rise(200).window_after(100_000), 75_000);
        assert_eq!(rise(1220).window_after(100_000), 75_000);
    }

    #[test]
    fn samples_of_one_moment_count_once() {
        let mut rise = RttRise::default();
        for _ in 0..100 {
            assert!(!rise.has_risen(Time::from_millis(5), Duration::from_millis(10)));
        }
        assert_eq!(rise.taken, 1);
    }
}
