//! Round-trip time estimation (RFC 9002 §5).

use core::time::Duration;

use anabranch_wire::{PathId, Time};

/// Timer granularity that the system is assumed to have (RFC 9002 §6.1.2, kGranularity).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// Round-trip time of one path.
#[derive(Clone, Debug)]
pub struct Rtt {
    latest: Duration,
    smoothed: Duration,
    variance: Duration,
    min: Duration,
    first_sample: Option<Time>,
    /// `true` if the next sample replaces `min`: after persistent congestion, or when acknowledgments return
    /// on another path.
    min_is_stale: bool,
    /// Path on which the newest sample's acknowledgment arrived.
    return_path: Option<PathId>,
}

impl Rtt {
    pub(crate) fn new(initial: Duration) -> Self {
        Self {
            latest: initial,
            smoothed: initial,
            variance: initial / 2,
            min: initial,
            first_sample: None,
            min_is_stale: false,
            return_path: None,
        }
    }

    /// Returns the path on which the newest sample's acknowledgment arrived; `None` before the first sample.
    pub fn return_path(&self) -> Option<PathId> {
        self.return_path
    }

    /// Returns the newest sample, or the assumed initial value before the first sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns the smoothed round-trip time (RFC 9002 §5.3).
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// Returns the mean deviation of the samples, `rttvar` (RFC 9002 §5.3).
    pub fn variance(&self) -> Duration {
        self.variance
    }

    /// Returns the minimum round-trip time of the path (RFC 9002 §5.2).
    pub fn min(&self) -> Duration {
        self.min
    }

    /// Returns whether the path has a round-trip time sample.
    pub fn has_sample(&self) -> bool {
        self.first_sample.is_some()
    }

    /// Returns the time of the first sample.
    pub(crate) fn first_sample(&self) -> Option<Time> {
        self.first_sample
    }

    /// Returns the probe timeout without the peer's acknowledgment delay and without backoff (RFC 9002
    /// §6.2.1).
    pub fn pto_base(&self) -> Duration {
        self.smoothed + (self.variance * 4).max(GRANULARITY)
    }

    /// Returns the larger of the latest and the smoothed value, the base of the time threshold (RFC 9002
    /// §6.1.2).
    pub(crate) fn loss_base(&self) -> Duration {
        self.latest.max(self.smoothed)
    }

    /// Records that the next sample's acknowledgment arrived on `path`. If that is another path than before,
    /// the round trip is a different one and the minimum is measured anew (RFC 10069, “Computing Path RTT”).
    pub(crate) fn came_by(&mut self, path: PathId) {
        self.min_is_stale |= self.has_sample() && Some(path) != self.return_path;
        self.return_path = Some(path);
    }

    /// Adds a sample. `ack_delay` is already limited to the peer's `max_ack_delay` (RFC 9002 §5.3).
    pub(crate) fn update(&mut self, now: Time, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        if self.first_sample.is_none() {
            self.first_sample = Some(now);
            self.min = latest;
            self.smoothed = latest;
            self.variance = latest / 2;
            return;
        }
        // RFC 9002 §5.2: min_rtt ignores the acknowledgment delay.
        if self.min_is_stale || latest < self.min {
            self.min = latest;
            self.min_is_stale = false;
        }
        // RFC 9002 §5.3: the delay is subtracted only if the result is not below the minimum.
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        self.variance = (self.variance * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// Discards the minimum. After persistent congestion it is measured anew (RFC 9002 §5.2).
    pub(crate) fn forget_min(&mut self) {
        self.min_is_stale = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn first_sample_replaces_the_assumption_and_ignores_the_delay() {
        let mut rtt = Rtt::new(ms(333));
        assert_eq!(rtt.pto_base(), ms(333) + ms(333) * 2);
        rtt.update(Time::from_millis(5), ms(100), ms(20));
        assert_eq!((rtt.min(), rtt.smoothed(), rtt.variance()), (ms(100), ms(100), ms(50)));
        assert_eq!(rtt.first_sample(), Some(Time::from_millis(5)));
    }

    #[test]
    fn second_sample_by_hand() {
        let mut rtt = Rtt::new(ms(333));
        rtt.update(Time::ZERO, ms(100), ms(0));
        rtt.update(Time::ZERO, ms(160), ms(20));
        // adjusted 140: variance 3/4·50 + 1/4·40, smoothed 7/8·100 + 1/8·140
        assert_eq!(rtt.variance(), Duration::from_micros(47_500));
        assert_eq!(rtt.smoothed(), ms(105));
        assert_eq!(rtt.latest(), ms(160));
    }

    #[test]
    fn implausible_delay_is_not_subtracted() {
        let mut rtt = Rtt::new(ms(333));
        rtt.update(Time::ZERO, ms(100), ms(0));
        rtt.update(Time::ZERO, ms(110), ms(20));
        // 110 − 20 would be below the minimum of 100, so the whole sample counts.
        assert_eq!(rtt.smoothed(), Duration::from_micros(101_250));
    }

    #[test]
    fn minimum_is_taken_afresh_when_acknowledgments_change_their_way() {
        let mut rtt = Rtt::new(ms(333));
        for (via, latest, min) in
            [(3, 50, 50), (3, 60, 50), (1, 70, 70), (1, 80, 70), (3, 55, 55), (3, 60, 55)]
        {
            rtt.came_by(PathId(via));
            rtt.update(Time::ZERO, ms(latest), ms(0));
            assert_eq!((rtt.min(), rtt.return_path()), (ms(min), Some(PathId(via))));
        }
    }

    #[test]
    fn minimum_is_taken_afresh_after_persistent_congestion() {
        let mut rtt = Rtt::new(ms(333));
        rtt.update(Time::ZERO, ms(10), ms(0));
        rtt.update(Time::ZERO, ms(50), ms(0));
        assert_eq!(rtt.min(), ms(10));
        rtt.forget_min();
        rtt.update(Time::ZERO, ms(50), ms(0));
        assert_eq!(rtt.min(), ms(50));
    }
}
