//! Times that requests took, summed up for the results.

use std::time::Duration;

use serde_json::{Value, json};

/// Times within which half of all requests were complete, and 99 of 100, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    p50: f64,
    p99: f64,
}

impl Latency {
    /// Sums up `times`. Returns `None` if there are none.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let rank = |percent: usize| {
            let index = (times.len() * percent).div_ceil(100).checked_sub(1)?;
            times.get(index).map(|time| time.as_nanos() as f64 / 1e3)
        };
        Some(Self { p50: rank(50)?, p99: rank(99)? })
    }

    pub(super) fn json(self) -> Value {
        json!({ "p50": self.p50, "p99": self.p99 })
    }

    pub(super) fn words(self) -> String {
        format!("{:<20}{:.0} µs, 99 % within {:.0} µs", "latency", self.p50, self.p99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_occurred() {
        let of = |times: std::ops::RangeInclusive<u64>| {
            Latency::of(times.rev().map(Duration::from_micros).collect())
        };
        assert_eq!(of(1..=100), Some(Latency { p50: 50.0, p99: 99.0 }));
        assert_eq!(of(1..=3), Some(Latency { p50: 2.0, p99: 3.0 }));
        assert_eq!(of(7..=7), Some(Latency { p50: 7.0, p99: 7.0 }));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
