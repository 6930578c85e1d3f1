//! Rows of finished runs by experiment, variant and point, for claims. A value at a point is the median over
//! its repetitions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::random::Rng;
use crate::record::Row;
use crate::stats::median;

/// Function that returns a value of a row; `None` if the row does not have the value.
pub type Metric = fn(&Row) -> Option<f64>;

/// Rows by experiment and variant. Rows of failed runs are counted, but their values are ignored.
#[derive(Clone, Debug, Default)]
pub struct Results {
    rows: BTreeMap<(String, String), Points>,
}

/// Rows of a variant by the number of their point. A resampled set may contain a point several times, under
/// different numbers.
type Points = BTreeMap<u64, Rc<Vec<Row>>>;

impl FromIterator<Row> for Results {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        let mut results = Self::default();
        for row in rows {
            let points = results.rows.entry((row.experiment.clone(), row.variant.clone())).or_default();
            Rc::make_mut(points.entry(row.point).or_default()).push(row);
        }
        results
    }
}

impl Results {
    /// Returns whether there are runs of the variant.
    pub fn has(&self, experiment: &str, variant: &str) -> bool {
        self.rows.contains_key(&(experiment.to_owned(), variant.to_owned()))
    }

    fn of(&self, experiment: &str, variant: &str) -> impl Iterator<Item = (u64, &Row)> + Clone {
        let points = self.rows.get(&(experiment.to_owned(), variant.to_owned()));
        points.into_iter().flatten().flat_map(|(point, rows)| rows.iter().map(|row| (*point, row)))
    }

    /// Returns all rows of the variant that did not fail.
    pub fn rows(&self, experiment: &str, variant: &str) -> impl Iterator<Item = &Row> + Clone {
        self.of(experiment, variant).map(|(_, row)| row).filter(|row| row.failure.is_empty())
    }

    /// Returns the numbers of the variant's failed runs and of all its runs.
    pub fn failures(&self, experiment: &str, variant: &str) -> (usize, usize) {
        let rows = || self.of(experiment, variant);
        (rows().filter(|(_, row)| !row.failure.is_empty()).count(), rows().count())
    }

    /// Returns the numbers of the points at which any variant of the experiment was run.
    pub(super) fn points(&self, experiment: &str) -> BTreeSet<u64> {
        self.variants(experiment).flat_map(|points| points.keys().copied()).collect()
    }

    fn variants(&self, experiment: &str) -> impl Iterator<Item = &Points> {
        self.rows.iter().filter(move |((name, _), _)| name == experiment).map(|(_, points)| points)
    }

    /// Returns results whose points are drawn with replacement, as many for each experiment as it has. All
    /// variants of an experiment get the same points.
    pub(super) fn resampled(&self, rng: &mut Rng) -> Self {
        let experiments: BTreeSet<&String> = self.rows.keys().map(|(experiment, _)| experiment).collect();
        let mut drawn = BTreeMap::new();
        for experiment in experiments {
            let points: Vec<u64> = self.points(experiment).into_iter().collect();
            let of_all = |rng: &mut Rng| points[rng.below(points.len() as u64) as usize];
            drawn.insert(experiment, points.iter().map(|_| of_all(rng)).collect::<Vec<_>>());
        }
        let rows = self.rows.iter().map(|(name, points)| {
            let numbered = (0..).zip(drawn.get(&name.0).into_iter().flatten());
            let again = numbered.filter_map(|(number, point)| Some((number, Rc::clone(points.get(point)?))));
            (name.clone(), again.collect())
        });
        Self { rows: rows.collect() }
    }

    /// Returns the metric's median over the repetitions at each point.
    pub fn by_point(&self, experiment: &str, variant: &str, metric: Metric) -> BTreeMap<u64, f64> {
        let points = self.rows.get(&(experiment.to_owned(), variant.to_owned()));
        let medians = points.into_iter().flatten().filter_map(|(point, rows)| {
            let ended = rows.iter().filter(|row| row.failure.is_empty());
            Some((*point, median(&ended.filter_map(metric).collect::<Vec<_>>())?))
        });
        medians.collect()
    }

    /// Returns the values of [`Self::by_point`] without the numbers of the points.
    pub fn values(&self, experiment: &str, variant: &str, metric: Metric) -> Vec<f64> {
        self.by_point(experiment, variant, metric).into_values().collect()
    }

    /// Returns the ratio of one variant's metric to that of another, at each point that both have.
    pub fn ratios(&self, experiment: &str, over: [&str; 2], metric: Metric) -> BTreeMap<u64, f64> {
        self.paired(experiment, over, metric, |one, other| one / other)
    }

    /// Applies `f` to the metric's values for two variants at each point that both have. Returns the results
    /// by point.
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
