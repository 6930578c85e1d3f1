//! Stacks in the results of comparisons. Variants that differ only in the single path that they use are one
//! stack. Only the fastest run of a stack at each point counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Row;
use crate::stats::Sample;

/// Text between the name of a stack and the number of the path that it uses alone.
const PATH: &str = "-path-";
/// End of the names of stacks that use one path alone. The run on the best path counts.
pub const ALONE: &str = "-best-path";

/// Returns the stack of a variant, and `true` if the variant uses one path alone. A stack that uses one path
/// alone has `best-path` in its name. The library's own is `anabranch-best-path`, and its variants are called
/// `quic-path-N`.
pub fn of(variant: &str) -> (String, bool) {
    match variant.split_once(PATH) {
        Some(("quic", _)) => (format!("anabranch{ALONE}"), true),
        Some((stack, _)) => (format!("{stack}{ALONE}"), true),
        None => (variant.to_owned(), false),
    }
}

/// Returns the fastest run of each stack for each point and repetition. The keys are the stack, the point and
/// the repetition. Failed runs do not count.
pub fn best<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeMap<(String, u64, u32), &'a Row> {
    let mut best: BTreeMap<_, &Row> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.failure.is_empty() && row.transfer_time_s.is_some()) {
        let slot = best.entry((of(&row.variant).0, row.point, row.repetition)).or_insert(row);
        if row.transfer_time_s < slot.transfer_time_s {
            *slot = row;
        }
    }
    best
}

/// Times of a stack at the points of an experiment, each divided by the point's fluid bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the stack.
    pub stack: String,
    /// Number of each point, and the time of its fastest run divided by its fluid bound. Each repetition has
    /// an entry of its own.
    pub ratios: Vec<(u64, f64)>,
    /// Number of points, each counted for each repetition, at which all runs of the stack failed.
    pub failed: usize,
}

impl Standing {
    /// Returns the median over all points.
    pub fn median(&self) -> Option<f64> {
        self.ratios.iter().map(|(_, ratio)| *ratio).collect::<Sample>().median()
    }

    /// Returns the point with the largest value, and that value.
    pub fn worst(&self) -> Option<(u64, f64)> {
        self.ratios.iter().copied().max_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// Returns the standings of all stacks in `rows`, sorted by experiment and stack. Points without a fluid
/// bound are left out.
pub fn standings(rows: &[Row]) -> Vec<Standing> {
    let mut experiments: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.bound_s.is_some()) {
        experiments.entry(&row.experiment).or_default().push(row);
    }
    experiments.into_iter().flat_map(|(experiment, rows)| of_experiment(experiment, &rows)).collect()
}

/// Returns the standings of one experiment, sorted by stack. All `rows` have a fluid bound.
fn of_experiment(experiment: &str, rows: &[&Row]) -> Vec<Standing> {
    let best = best(rows.iter().copied());
    let mut stacks: BTreeMap<String, Standing> = BTreeMap::new();
    let runs: BTreeSet<_> = rows.iter().map(|row| (of(&row.variant).0, row.point, row.repetition)).collect();
    for run in runs {
        let standing = stacks.entry(run.0.clone()).or_insert_with(|| Standing {
            experiment: experiment.to_owned(),
            stack: run.0.clone(),
            ..Standing::default()
        });
        match best.get(&run).and_then(|row| Some(row.transfer_time_s? / row.bound_s?)) {
            Some(ratio) => standing.ratios.push((run.1, ratio)),
            None => standing.failed += 1,
        }
    }
    stacks.into_values().collect()
}

#[cfg(test)]
mod tests;
