//! Times that requests took, summed up for the report.

use std::time::Duration;

/// Times of requests.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds the time of a request.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Adds the times of another lane or connection.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the report's value: the microseconds within which half of the requests were complete, and 99 of
    /// 100.
    pub(crate) fn json(mut self) -> String {
        self.0.sort_unstable();
        let rank = |percent: usize| {
            let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
            self.0.get(index).map_or(0.0, |time| time.as_nanos() as f64 / 1e3)
        };
        format!("{{\"p50\":{:.3},\"p99\":{:.3}}}", rank(50), rank(99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: std::ops::RangeInclusive<u64>) -> Latencies {
        Latencies(times.rev().map(Duration::from_micros).collect())
    }

    #[test]
    fn percentiles_are_times_that_occurred() {
        let mut both = of(1..=50);
        both.append(of(51..=99));
        both.add(Duration::from_micros(100));
        assert_eq!(both.json(), r#"{"p50":50.000,"p99":99.000}"#);
        assert_eq!(of(1..=3).json(), r#"{"p50":2.000,"p99":3.000}"#);
    }
}
