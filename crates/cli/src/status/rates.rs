//! Rates of counters between one report and the next.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::Rated;

/// Counters of the present and the previous report by their keys. A counter that a report does not have is
/// removed.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    before: BTreeMap<K, [u64; 2]>,
    now: BTreeMap<K, [u64; 2]>,
    /// Time between the reports; `None` for the first one.
    interval: Option<Duration>,
}

impl<K: Ord> Rates<K> {
    pub(crate) fn new() -> Self {
        Self { before: BTreeMap::new(), now: BTreeMap::new(), interval: None }
    }

    /// Begins a report. `interval` is the time since the previous one; `None` for the first one.
    pub(crate) fn begin(&mut self, interval: Option<Duration>) {
        self.before = std::mem::take(&mut self.now);
        self.interval = interval.filter(|interval| !interval.is_zero());
    }

    /// Returns the bytes sent and received, with their rates. A counter that the previous report did not have
    /// was 0 then.
    pub(crate) fn rate(&mut self, key: K, [sent, received]: [u64; 2]) -> [Rated; 2] {
        let before = self.before.get(&key).copied().unwrap_or_default();
        let rated = |bytes: u64, before: u64| {
            let rate =
                |interval: Duration| bytes.saturating_sub(before) as f64 * 8e-6 / interval.as_secs_f64();
            Rated { bytes, mbps: self.interval.map(rate) }
        };
        let rates = [rated(sent, before[0]), rated(received, before[1])];
        self.now.insert(key, [sent, received]);
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let mut rates = Rates::new();
        rates.begin(None);
        assert_eq!(rates.rate("a", [1_000, 0])[0], Rated { bytes: 1_000, mbps: None });
        rates.begin(Some(Duration::from_millis(500)));
        let [sent, received] = rates.rate("a", [251_000, 125_000]);
        assert_eq!((sent.mbps, received.mbps), (Some(4.0), Some(2.0)));
        rates.begin(Some(Duration::from_secs(1)));
        rates.begin(Some(Duration::from_secs(1)));
        assert_eq!(rates.rate("a", [125_000, 0])[0].mbps, Some(1.0), "forgotten, and new again");
        rates.begin(Some(Duration::from_secs(1)));
        assert_eq!(rates.rate("a", [0, 0])[0].mbps, Some(0.0), "never below 0");
    }
}
