//! Bit rate of a link, constant or changing over time.

use core::time::Duration;

use anabranch_wire::Time;

/// Bits per second over time. Each step is valid from its time until the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    steps: Vec<(Time, u64)>,
    /// Period after which the steps repeat; `None` if they do not.
    period: Option<Duration>,
}

const NANOS: u64 = 1_000_000_000;

impl Rate {
    /// Creates a constant rate, at least 1 bit/s.
    pub fn constant(bits_per_second: u64) -> Self {
        Self { steps: vec![(Time::ZERO, bits_per_second.max(1))], period: None }
    }

    /// Creates a rate that changes at the given times, which must ascend. The first step's rate is also used
    /// before its time. A rate of 0 is a pause; in the last step it counts as 1 bit/s.
    pub fn steps(steps: impl IntoIterator<Item = (Time, u64)>) -> Self {
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_by_key(|step| step.0);
        match steps.last_mut() {
            Some(last) => last.1 = last.1.max(1),
            None => return Self::constant(1),
        }
        Self { steps, period: None }
    }

    /// Creates a rate that changes at the given times, which must ascend, and repeats after each `period`.
    /// The period must be longer than the last time. A rate of 0 is a pause; in the last step it counts as 1
    /// bit/s.
    pub fn repeating(steps: impl IntoIterator<Item = (Time, u64)>, period: Duration) -> Self {
        let mut rate = Self::steps(steps);
        // The last step lasts until the end of the period.
        rate.period = Some(period.max(Duration::from_nanos(1)));
        rate
    }

    /// Returns the rate at `at` in bits per second.
    pub fn at(&self, at: Time) -> u64 {
        self.steps[self.index(self.place(at).0)].1
    }

    /// Returns the time at which the last of `bytes` bytes leaves if the first one begins to leave at
    /// `start`. The time is rounded to the nearest nanosecond, and a half is rounded down. ns-3 3.37 does the
    /// same except for a few halves (docs/lab-model.md).
    pub fn finish(&self, start: Time, bytes: u64) -> Time {
        let (place, mut begun) = self.place(start);
        let mut index = self.index(place);
        let mut from = start;
        // Units of 10^-9 bit, so that the bits of a step are an integer.
        let mut left = u128::from(bytes) * 8 * u128::from(NANOS);
        loop {
            let rate = u128::from(self.steps[index].1);
            let next =
                self.steps.get(index + 1).map(|(until, _)| begun + Duration::from_nanos(until.as_nanos()));
            if let Some(until) = next.or(self.period.map(|period| begun + period)) {
                let carried = rate * (until - from).as_nanos();
                if carried < left {
                    left -= carried;
                    from = until;
                    index += 1;
                    if next.is_none() {
                        (index, begun) = (0, until);
                    }
                    continue;
                }
            }
            let nearest = (2 * left + rate.saturating_sub(1)) / (2 * rate).max(1);
            let nanos = u64::try_from(nearest).unwrap_or(u64::MAX);
            return from + Duration::from_nanos(nanos);
        }
    }

    /// Returns the position of `at` within the period, and the time at which the period began.
    fn place(&self, at: Time) -> (Time, Time) {
        let Some(period) = self.period else { return (at, Time::ZERO) };
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let place = at.as_nanos() % period;
        (Time::from_nanos(place), Time::from_nanos(at.as_nanos() - place))
    }

    fn index(&self, at: Time) -> usize {
        if self.steps.len() == 1 {
            return 0;
        }
        self.steps.partition_point(|step| step.0 <= at).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_takes_bits_over_rate() {
        let rate = Rate::constant(3_000_000);
        // 1500 B · 8 / 3 Mbit/s = 4 ms. One byte takes 2666.6… ns, two bytes 5333.3… ns.
        assert_eq!(rate.finish(Time::from_millis(7), 1500), Time::from_millis(11));
        assert_eq!([1, 2].map(|bytes| rate.finish(Time::ZERO, bytes)), [2_667, 5_333].map(Time::from_nanos));
        // 99 B · 8 / 5.12 Mbit/s = 154687.5 ns.
        assert_eq!(Rate::constant(5_120_000).finish(Time::ZERO, 99), Time::from_nanos(154_687));
    }

    #[test]
    fn a_packet_is_sent_across_changes_of_the_rate() {
        let ms = Time::from_millis;
        let rate = Rate::steps([(ms(0), 8_000_000), (ms(1), 0), (ms(5), 4_000_000)]);
        // 1000 B in the first millisecond, nothing until 5 ms, then 500 B per millisecond.
        assert_eq!(rate.finish(ms(0), 1000), ms(1));
        assert_eq!(rate.finish(ms(0), 1500), ms(6));
        assert_eq!(rate.finish(ms(2), 500), ms(6));
        assert_eq!([rate.at(ms(0)), rate.at(ms(3)), rate.at(ms(9))], [8_000_000, 0, 4_000_000]);
    }
}
