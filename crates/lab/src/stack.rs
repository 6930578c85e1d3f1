//! Stacks in the results of comparisons: variants that differ only in the one path that they use are one stack,
//! of which the fastest run at each point counts.

use std::collections::BTreeMap;

use crate::record::Row;
use crate::stats::Sample;

/// Text between the name of a stack and the number of the path that it uses alone.
const PATH: &str = "-path-";
/// End of the names of stacks that use one path alone. The run on the best path counts.
pub const ALONE: &str = "-best-path";

/// Returns the stack of a variant, and whether the variant uses one path alone. Such a stack has `best-path`
/// in its name; the library's own is `anabranch-best-path`, whose variants are called `quic-path-N`.
pub fn of(variant: &str) -> (String, bool) {
    match variant.split_once(PATH) {
        Some(("quic", _)) => (format!("anabranch{ALONE}"), true),
        Some((stack, _)) => (format!("{stack}{ALONE}"), true),
        None => (variant.to_owned(), false),
    }
}

/// Returns the fastest run of each stack for each point and repetition, by stacks. Runs that failed do not
/// count.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the stack.
    pub stack: String,
    /// Number of each point, and the time of its fastest run divided by its fluid bound. Each repetition has
    /// an entry of its own.
    pub ratios: Vec<(u64, f64)>,
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

/// Returns the stacks of each experiment in `rows` that have runs at points with a fluid bound, by experiments and stacks.
pub fn standings(rows: &[Row]) -> Vec<Standing> {
    let mut experiments: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        experiments.entry(&row.experiment).or_default().push(row);
    }
    let mut standings: Vec<Standing> = Vec::new();
    for (experiment, rows) in experiments {
        for ((stack, point, _), row) in best(rows) {
            let Some(ratio) = row.transfer_time_s.zip(row.bound_s).map(|(time, bound)| time / bound) else {
                continue;
            };
            match standings.last_mut() {
                Some(last) if last.experiment == experiment && last.stack == stack => {
                    last.ratios.push((point, ratio));
                }
                _ => standings.push(Standing {
                    experiment: experiment.to_owned(),
                    stack,
                    ratios: vec![(point, ratio)],
                }),
            }
        }
    }
    standings
}

#[cfg(test)]
mod tests;
