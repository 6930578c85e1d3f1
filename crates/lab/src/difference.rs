//! Differences between two sets of results: the transfer time of each run is compared with that of the run of
//! the same variant, point and repetition in the other set.

use std::collections::BTreeMap;

use crate::random::{Rng, Seed};
use crate::record::Row;
use crate::stats::{RESAMPLED_SETS, Sample, median};

/// Maximum deviation from 1 of a pair's ratio at which both runs count as equally fast.
const EQUAL: f64 = 0.01;
const SEED: Seed = Seed(2);

/// Transfer times of one variant in two sets of results, pair by pair.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The experiment's name.
    pub experiment: String,
    /// The variant's name.
    pub variant: String,
    /// For each pair of successful runs, the number of their point, and the time in the second set divided by
    /// the time in the first.
    pub ratios: Vec<(u64, f64)>,
    /// Number of pairs of which one run or both failed.
    pub failed: usize,
}

impl Difference {
    fn values(&self) -> Vec<f64> {
        self.ratios.iter().map(|(_, ratio)| *ratio).collect()
    }

    /// Returns the median ratio; `None` without pairs.
    pub fn median(&self) -> Option<f64> {
        median(&self.values())
    }

    /// Returns the 95 % interval of the median ratio, from pairs drawn with replacement; `None` without
    /// pairs.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let values = self.values();
        let mut rng: Rng = SEED.rng(&self.variant);
        let mut drawn = |_| {
            let set = values.iter().map(|_| values[rng.below(values.len() as u64) as usize]);
            median(&set.collect::<Vec<_>>())
        };
        let medians: Sample = (0..RESAMPLED_SETS).filter_map(&mut drawn).collect();
        medians.middle_95()
    }

    /// Returns the numbers of pairs whose second run was faster, and slower, by more than 1 %.
    pub fn moved(&self) -> (usize, usize) {
        let count = |f: &dyn Fn(f64) -> bool| self.ratios.iter().filter(|(_, ratio)| f(*ratio)).count();
        (count(&|ratio| ratio < 1.0 - EQUAL), count(&|ratio| ratio > 1.0 + EQUAL))
    }

    /// Returns the largest ratio, with its point.
    pub fn worst(&self) -> Option<(u64, f64)> {
        self.ratios.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Returns the differences between `before` and `after`, one for each variant of an experiment, in the order
/// of their names. Runs that only one set has are left out.
pub fn differences(before: &[Row], after: &[Row]) -> Vec<Difference> {
    let key = |row: &Row| (row.experiment.clone(), row.variant.clone(), row.point, row.repetition);
    let time = |row: &Row| row.transfer_time_s.filter(|time| row.failure.is_empty() && *time > 0.0);
    let firsts: BTreeMap<_, _> = before.iter().map(|row| (key(row), time(row))).collect();
    let mut all: BTreeMap<(String, String), Difference> = BTreeMap::new();
    for row in after {
        let Some(first) = firsts.get(&key(row)) else { continue };
        let (experiment, variant) = (row.experiment.clone(), row.variant.clone());
        let one = all.entry((experiment.clone(), variant.clone())).or_insert_with(|| Difference {
            experiment,
            variant,
            ratios: Vec::new(),
            failed: 0,
        });
        match (first, time(row)) {
            (Some(first), Some(second)) => one.ratios.push((row.point, second / first)),
            _ => one.failed += 1,
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, point: u64, time: f64) -> Row {
        Row { variant: variant.into(), point, transfer_time_s: Some(time), ..Row::default() }
    }

    #[test]
    fn runs_are_compared_pair_by_pair() {
        let before =
            [row("a", 0, 1.0), row("a", 1, 100.0), row("a", 2, 2.0), row("b", 0, 1.0), row("c", 0, 1.0)];
        let failed = Row { failure: "deadline".into(), ..row("b", 0, 9.0) };
        let after = [row("a", 2, 2.0), row("a", 1, 102.0), row("a", 0, 0.5), failed, row("d", 0, 1.0)];
        let found = differences(&before, &after);
        let names: Vec<_> = found.iter().map(|one| one.variant.as_str()).collect();
        assert_eq!(names, ["a", "b"], "only those in both");
        let a = &found[0];
        assert_eq!((a.median(), a.moved(), a.worst()), (Some(1.0), (1, 1), Some((1, 1.02))));
        let [low, high] = a.interval().unwrap();
        assert!(low <= 1.0 && (0.5..=1.02).contains(&low) && (1.0..=1.02).contains(&high));
        assert_eq!((found[1].failed, found[1].median(), found[1].interval()), (1, None, None));
    }
}
