//! Medians and percentiles, defined once for all results: tables, figures, claims and benchmarks. The script
//! of a report's page repeats the definition.

/// Sample of values, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    /// Collects all values that are not NaN.
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        Self(sorted)
    }
}

impl Sample {
    /// Returns the number of values.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// Returns the values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// Returns the value below which `share` (0 to 1) of the sample lies; `None` if the sample is empty.
    /// Values in between are interpolated linearly, as in numpy and pandas.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = share.clamp(0.0, 1.0) * last as f64;
        let low = self.0[place as usize];
        let high = self.0[(place as usize + 1).min(last)];
        Some(low + (high - low) * place.fract())
    }

    /// Returns the same value as [`Self::quantile`], but also `None` if the sample is too small: at least one
    /// value must be expected beyond the result. So the 95th percentile needs 20 values and the 10th needs
    /// 10. The median, the minimum and the maximum need one.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        // Tolerance for shares such as 0.9, which have no exact binary form.
        const ROUNDING: f64 = 1e-9;
        let beyond = share.min(1.0 - share);
        let carried = beyond <= 0.0 || share == 0.5 || self.0.len() as f64 * beyond >= 1.0 - ROUNDING;
        self.quantile(share).filter(|_| carried)
    }

    /// Returns the middle value, or the mean of the two middle values; `None` if the sample is empty.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Returns the ends of the middle 95 % of the values; `None` if there are no values.
    pub fn middle_95(&self) -> Option<[f64; 2]> {
        Some([self.quantile(0.025)?, self.quantile(0.975)?])
    }

    /// Returns the mean; `None` if the sample is empty.
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }
}

/// Number of sets that are drawn, each with replacement, to compute a 95 % interval (the percentile
/// bootstrap). Only experiments need such intervals.
#[cfg(feature = "experiments")]
pub(crate) const RESAMPLED_SETS: usize = 1000;

/// Returns the median of unsorted values; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    values.iter().copied().collect::<Sample>().median()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles equal those of `numpy.percentile(values, [0, 5, 25, 50, 90, 95, 100])`.
    #[test]
    fn percentiles_are_those_of_numpy() {
        let shares = [0.0, 0.05, 0.25, 0.5, 0.9, 0.95, 1.0];
        let all = |values: &[f64]| {
            let sample: Sample = values.iter().copied().collect();
            shares.map(|share| (sample.quantile(share).unwrap() * 1e9).round() / 1e9)
        };
        assert_eq!(all(&[8.606, 8.22, 9.1, 8.0]), [8.0, 8.033, 8.165, 8.413, 8.9518, 9.0259, 9.1]);
        assert_eq!(all(&[3.0, 1000.0, 1.0]), [1.0, 1.2, 2.0, 3.0, 800.6, 900.3, 1000.0]);
        assert_eq!(all(&[7.0]), [7.0; 7]);
        assert_eq!(Sample::default().quantile(0.5), None);
        assert_eq!(median(&[4.0, 1.0, f64::NAN, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn a_percentile_needs_as_many_values_as_it_says() {
        let fewest = |share: f64| {
            (1..=1000).find(|n| (0..*n).map(f64::from).collect::<Sample>().percentile(share).is_some())
        };
        let shares = [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];
        assert_eq!(shares.map(fewest), [1, 20, 10, 4, 1, 4, 10, 20, 100, 1].map(Some));
    }
}
