//! Rows of finished runs as claims look at them: the median over repetitions, point by point.

use std::collections::BTreeMap;

use crate::record::Row;
use crate::stats::median;

/// Something that a row tells.
pub type Metric = fn(&Row) -> Option<f64>;

/// Rows by experiment and variant; those that failed count as runs but tell nothing.
#[derive(Clone, Debug, Default)]
pub struct Results {
    rows: BTreeMap<(String, String), BTreeMap<u64, Vec<Row>>>,
}

impl FromIterator<Row> for Results {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        let mut results = Self::default();
        for row in rows {
            let points = results.rows.entry((row.experiment.clone(), row.variant.clone())).or_default();
            points.entry(row.point).or_default().push(row);
        }
        results
    }
}

impl Results {
    /// Returns whether there are runs of the variant.
    pub fn has(&self, experiment: &str, variant: &str) -> bool {
        self.rows.contains_key(&(experiment.to_owned(), variant.to_owned()))
    }

    /// Returns all rows of the variant that did not fail.
    pub fn rows(&self, experiment: &str, variant: &str) -> impl Iterator<Item = &Row> + Clone {
        let points = self.rows.get(&(experiment.to_owned(), variant.to_owned()));
        points.into_iter().flat_map(BTreeMap::values).flatten().filter(|row| row.failure.is_empty())
    }

    /// Runs of the variant that failed, of how many.
    pub fn failures(&self, experiment: &str, variant: &str) -> (usize, usize) {
        let points = self.rows.get(&(experiment.to_owned(), variant.to_owned()));
        let rows = || points.into_iter().flat_map(BTreeMap::values).flatten();
        (rows().filter(|row| !row.failure.is_empty()).count(), rows().count())
    }

    /// Returns the metric's median over the repetitions at each point.
    pub fn by_point(&self, experiment: &str, variant: &str, metric: Metric) -> BTreeMap<u64, f64> {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for row in self.rows(experiment, variant) {
            values.entry(row.point).or_default().extend(metric(row));
        }
        values.into_iter().filter_map(|(point, values)| Some((point, median(&values)?))).collect()
    }

    /// Returns the metric at each point, without the points.
    pub fn values(&self, experiment: &str, variant: &str, metric: Metric) -> Vec<f64> {
        self.by_point(experiment, variant, metric).into_values().collect()
    }

    /// Returns the ratio of one variant's metric to that of another, at each point that both have.
    pub fn ratios(&self, experiment: &str, over: [&str; 2], metric: Metric) -> BTreeMap<u64, f64> {
        self.paired(experiment, over, metric, |one, other| one / other)
    }

    /// Returns `f` of the metric's values for two variants, at each point that both have.
    pub fn paired(
        &self,
        experiment: &str,
        [one, other]: [&str; 2],
        metric: Metric,
        f: fn(f64, f64) -> f64,
    ) -> BTreeMap<u64, f64> {
        let others = self.by_point(experiment, other, metric);
        let ones = self.by_point(experiment, one, metric);
        ones.iter().filter_map(|(point, value)| Some((*point, f(*value, *others.get(point)?)))).collect()
    }
}

/// Returns the share of `values` for which `f` is true; `None` if there are no values.
pub(super) fn share(values: &[f64], f: impl Fn(f64) -> bool) -> Option<f64> {
    let matching = values.iter().filter(|value| f(**value)).count();
    (!values.is_empty()).then(|| matching as f64 / values.len() as f64)
}

/// Returns the largest value; `None` if there are no values.
pub(super) fn largest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().max_by(f64::total_cmp)
}
