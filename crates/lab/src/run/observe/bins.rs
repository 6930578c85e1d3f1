//! Values over time in equal bins. The number of bins is bounded, regardless of the duration.

use anabranch_wire::Time;

/// Initial width of a bin in nanoseconds.
const WIDTH: u64 = 1_000_000;
/// Maximum number of bins. When it is exceeded, the width of a bin doubles and the number of bins halves.
const MAX_BINS: usize = 120;

/// One value over time. The width of its bins is the initial width times a power of two, so that several
/// values can be given bins of equal width.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    width: u64,
    /// Value of each bin; `None` if none was recorded.
    values: Vec<Option<u64>>,
    join: fn(u64, u64) -> u64,
}

impl Default for Bins {
    fn default() -> Self {
        Self::last()
    }
}

impl Bins {
    /// Creates bins that add up the values recorded in each.
    pub(super) fn sum() -> Self {
        Self { width: WIDTH, values: Vec::new(), join: |before, now| before + now }
    }

    /// Creates bins that keep the last value recorded in each.
    pub(super) fn last() -> Self {
        Self { width: WIDTH, values: Vec::new(), join: |_, now| now }
    }

    pub(super) fn tell(&mut self, now: Time, value: u64) {
        let at = self.cover(now);
        let before = &mut self.values[at];
        *before = Some(before.map_or(value, |before| (self.join)(before, value)));
    }

    /// Returns the index of the bin of `now`. Widens and adds bins as necessary.
    fn cover(&mut self, now: Time) -> usize {
        while now.as_nanos() / self.width >= MAX_BINS as u64 {
            self.widen();
        }
        let at = (now.as_nanos() / self.width) as usize;
        if at >= self.values.len() {
            self.values.resize(at + 1, None);
        }
        at
    }

    fn widen(&mut self) {
        self.width *= 2;
        let join = self.join;
        let pairs = self.values.chunks(2).map(|pair| match *pair {
            [Some(first), Some(second)] => Some(join(first, second)),
            [first, second] => second.or(first),
            [only] => only,
            _ => None,
        });
        self.values = pairs.collect();
    }

    /// Gives all values in `all` the same width and number of bins. Returns the width in seconds.
    pub(super) fn align<'a>(all: impl IntoIterator<Item = &'a mut Self>) -> f64 {
        let mut all: Vec<_> = all.into_iter().collect();
        let width = all.iter().map(|bins| bins.width).max().unwrap_or(WIDTH);
        for bins in &mut all {
            while bins.width < width {
                bins.widen();
            }
        }
        let bins = all.iter().map(|bins| bins.values.len()).max().unwrap_or(0);
        all.iter_mut().for_each(|one| one.values.resize(bins, None));
        width as f64 / 1e9
    }

    /// Returns the values of bins that are sums; empty bins are 0.
    pub(super) fn sums(&self) -> Vec<u64> {
        self.values.iter().map(|value| value.unwrap_or(0)).collect()
    }

    /// Returns the values of bins that keep the last value; an empty bin repeats the bin before it.
    pub(super) fn held(&self) -> Vec<u64> {
        let hold = |last: &mut u64, value: &Option<u64>| {
            *last = value.unwrap_or(*last);
            Some(*last)
        };
        self.values.iter().scan(0, hold).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen_as_time_goes_on_and_lose_nothing() {
        let (mut sum, mut last) = (Bins::sum(), Bins::last());
        for ms in 0..1000 {
            sum.tell(Time::from_millis(ms), 1);
            last.tell(Time::from_millis(ms), ms);
        }
        assert_eq!((sum.width, sum.sums().len()), (16_000_000, 63));
        assert_eq!(sum.sums()[..62], [16; 62]);
        assert_eq!(last.held()[..3], [15, 31, 47]);

        let mut early = Bins::last();
        early.tell(Time::from_millis(17), 5);
        assert_eq!(Bins::align([&mut sum, &mut early]), 0.016);
        assert_eq!((early.held()[0], early.held()[1], early.held()[62], early.held().len()), (0, 5, 5, 63));
        assert_eq!(early.sums()[..3], [0, 5, 0]);
    }

    #[test]
    fn a_long_silence_is_covered() {
        let mut bins = Bins::sum();
        bins.tell(Time::from_millis(1), 2);
        bins.tell(Time::from_millis(3_600_000), 3);
        assert!(bins.sums().len() <= MAX_BINS && bins.sums().iter().sum::<u64>() == 5);
    }
}
