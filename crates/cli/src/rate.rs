//! Current rate, averaged over a short window, so that a change shows soon and a single burst does not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Length of the window; older bytes do not count.
const WINDOW: Duration = Duration::from_millis(1500);
/// Minimum time between two stored samples.
const STEP: Duration = Duration::from_millis(100);

/// Meter of a byte rate.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Times and byte totals. At most one sample is older than the window.
    samples: VecDeque<(Instant, u64)>,
    newest: (Instant, u64),
}

impl Meter {
    /// Starts to measure at `now`, with `total` bytes so far.
    pub(crate) fn new(now: Instant, total: u64) -> Self {
        Self { samples: [(now, total)].into(), newest: (now, total) }
    }

    /// Records the total at `now`. A total below the previous one restarts the meter.
    pub(crate) fn sample(&mut self, now: Instant, total: u64) {
        if total < self.newest.1 {
            *self = Self::new(now, total);
        }
        self.newest = (now, total);
        if self.samples.back().is_none_or(|(last, _)| now.saturating_duration_since(*last) >= STEP) {
            self.samples.push_back(self.newest);
        }
        while self.samples.get(1).is_some_and(|(second, _)| now.saturating_duration_since(*second) >= WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the current rate in bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        let (now, total) = self.newest;
        let Some((then, before)) = self.samples.front() else { return 0.0 };
        let time = now.saturating_duration_since(*then).as_secs_f64();
        if time > 0.0 { (total - before) as f64 / time } else { 0.0 }
    }
}

/// Formats a rate in bytes per second for people.
pub(crate) fn words(rate: f64) -> String {
    let mbps = rate * 8.0 / 1e6;
    if mbps < 1_000.0 { format!("{mbps:.1} Mbit/s") } else { format!("{:.2} Gbit/s", mbps / 1e3) }
}

/// Formats the time that `bytes` take at this rate; a dash if the rate is 0.
pub(crate) fn left(bytes: u64, rate: f64) -> String {
    let seconds = (bytes as f64 / rate).ceil();
    if !seconds.is_finite() || seconds >= 360_000.0 {
        return "–".to_owned();
    }
    let seconds = seconds as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the displayed rate `wait` after a link changed its rate. The change is after ten seconds, and
    /// bytes are sampled every 200 ms, as for the display.
    fn after_a_step(before: f64, after: f64, wait: Duration) -> f64 {
        let begin = Instant::now();
        let mut meter = Meter::new(begin, 0);
        let step = Duration::from_secs(10);
        let mut at = Duration::ZERO;
        while at <= step + wait {
            let total = before * at.min(step).as_secs_f64() + after * at.saturating_sub(step).as_secs_f64();
            meter.sample(begin + at, total as u64);
            at += Duration::from_millis(200);
        }
        meter.rate()
    }

    #[test]
    fn a_step_shows_within_two_seconds() {
        for (before, after) in [(6e6, 1e6), (1e6, 6e6), (1e6, 100e6), (100e6, 1e6), (0.0, 5e6)] {
            let shown = after_a_step(before, after, Duration::from_secs(2));
            assert!((shown / after - 1.0).abs() <= 0.2, "{before} to {after}: {shown}");
        }
        assert_eq!(after_a_step(6e6, 0.0, Duration::from_secs(2)), 0.0);
    }

    /// Bursts and the pauses between them give the average rate.
    #[test]
    fn bursts_are_spread() {
        let begin = Instant::now();
        let mut meter = Meter::new(begin, 0);
        for n in 1..=40_u64 {
            // Half a second's bytes arrive at once.
            meter.sample(begin + Duration::from_millis(n * 100), n / 5 * 500_000);
        }
        assert!((meter.rate() / 1e6 - 1.0).abs() <= 0.4, "{}", meter.rate());
        assert!(meter.samples.len() <= 17);
        meter.sample(begin + Duration::from_secs(5), 10);
        assert_eq!(meter.rate(), 0.0, "it has begun anew");
    }

    #[test]
    fn people_read_rates_and_times() {
        assert_eq!(words(5_262_500.0), "42.1 Mbit/s");
        assert_eq!(words(250e6), "2.00 Gbit/s");
        assert_eq!(left(10_000_000, 1e6), "0:10");
        assert_eq!(left(63_500_000, 1e6), "1:04");
        assert_eq!(left(3_700_000_000, 1e6), "1:01:40");
        assert_eq!((left(5, 0.0), left(0, 0.0)), ("–".to_owned(), "–".to_owned()));
    }
}
