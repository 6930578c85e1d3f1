//! Requested runs of a sweep. When sweeps are merged, the missing runs follow from them.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Shard, SweepError, SweepOptions};
use crate::experiment::{Experiment, Job};

/// Maximum number of shards, and of variants, that a message names; further ones are only counted.
const MAX_NAMED: usize = 8;

/// Requested runs: some variants at some points, restricted to a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Indices of the variants, in ascending order.
    variants: Vec<usize>,
    /// Indices of the points, in ascending order.
    points: Vec<usize>,
    repetitions: u32,
    shard: Shard,
    /// Indices of the requested variants that this machine cannot run, in ascending order. They count in the
    /// division into shards, so that all machines divide the runs in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<usize>,
}

/// Requested runs that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Number of missing runs.
    pub runs: usize,
    /// Number of requested runs, in all shards.
    pub of: usize,
    /// Shards that must be run again, with the number of missing runs of each.
    pub shards: BTreeMap<Shard, usize>,
    /// Variants with missing runs that the machine of a shard could not run.
    pub left_out: BTreeSet<String>,
}

impl Manifest {
    /// Returns the runs that `options` request.
    pub(super) fn of(experiment: &Experiment, options: &SweepOptions) -> Result<Self, SweepError> {
        let SweepOptions { shard, variants, points, left_out, .. } = options;
        if shard.index >= shard.of {
            return Err(SweepError::Shard(*shard));
        }
        let names: Vec<_> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
        if let Some(name) = variants.iter().flatten().find(|name| !names.contains(&name.as_str())) {
            return Err(SweepError::UnknownVariant { name: name.clone(), known: names.join(", ") });
        }
        let numbers: Vec<_> = experiment.points.iter().map(|point| point.run).collect();
        if let Some(&point) = points.iter().flatten().find(|point| !numbers.contains(point)) {
            return Err(SweepError::UnknownPoint { point, known: describe(&numbers) });
        }
        let wanted = |index: &usize| match variants {
            Some(all) => all.iter().any(|one| one == names[*index]),
            None => *index < experiment.usual,
        };
        let numbered = |number: &u64| points.as_ref().is_none_or(|all| all.contains(number));
        let variants: Vec<usize> = (0..names.len()).filter(wanted).collect();
        let is_left_out = |index: &usize| left_out.iter().any(|one| one == names[*index]);
        Ok(Self {
            left_out: variants.iter().copied().filter(is_left_out).collect(),
            variants,
            points: (0..numbers.len()).filter(|index| numbered(&numbers[*index])).collect(),
            repetitions: experiment.repetitions,
            shard: *shard,
        })
    }

    /// Returns the indices of the requested variants that this machine can run, in ascending order.
    pub(super) fn variants(&self) -> Vec<usize> {
        self.variants.iter().copied().filter(|variant| !self.left_out.contains(variant)).collect()
    }

    /// Returns the runs of the shard that this machine can run, in their order.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> {
        // The number of shards is never 0 in a sweep, but a journal may contain any number.
        let shard = self.whole().skip(self.shard.index).step_by(self.shard.of.max(1));
        shard.filter(|job| !self.left_out.contains(&job.variant))
    }

    /// Returns the runs of all shards, in their order, including those that this machine cannot run.
    fn whole(&self) -> impl Iterator<Item = Job> {
        self.variants.iter().flat_map(move |&variant| {
            self.points.iter().flat_map(move |&point| {
                (0..self.repetitions).map(move |repetition| Job { variant, point, repetition })
            })
        })
    }
}

impl Missing {
    /// Returns the runs that were `asked` for but are not `there`. The request for one shard implies the
    /// other shards. Runs of variants that all machines left out are not missing. `name` returns the name of
    /// a variant.
    pub(super) fn of<'a>(
        asked: impl Iterator<Item = &'a Manifest> + Clone,
        there: &BTreeSet<Job>,
        name: impl Fn(usize) -> String,
    ) -> Self {
        let whole =
            |one: &Manifest| Manifest { shard: Shard { index: 0, of: one.shard.of.max(1) }, ..one.clone() };
        let wholes: BTreeSet<Manifest> = asked.clone().map(whole).collect();
        let of_shard = |one: &'a Manifest| one.left_out.iter().map(|variant| (one.shard, *variant));
        let left_out: BTreeSet<(Shard, usize)> = asked.flat_map(of_shard).collect();
        let mut wanted = BTreeSet::new();
        let mut missing = Self::default();
        for one in &wholes {
            for (place, job) in one.whole().enumerate() {
                if one.left_out.contains(&job.variant) || !wanted.insert(job) || there.contains(&job) {
                    continue;
                }
                let of = one.shard.of;
                let shard = Shard { index: place % of, of };
                missing.runs += 1;
                *missing.shards.entry(shard).or_default() += 1;
                if left_out.contains(&(shard, job.variant)) {
                    missing.left_out.insert(name(job.variant));
                }
            }
        }
        missing.of = wanted.len();
        missing
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, of, shards, left_out } = self;
        write!(f, "{runs} of {of} runs are missing")?;
        let named = shards.iter().filter(|(shard, _)| shard.of > 1);
        for (place, (shard, runs)) in named.clone().take(MAX_NAMED).enumerate() {
            let before = if place == 0 { ": " } else { ", " };
            write!(f, "{before}{runs} of shard {}/{}", shard.index, shard.of)?;
        }
        match named.count().saturating_sub(MAX_NAMED) {
            0 => {}
            1 => write!(f, " and some of another shard")?,
            more => write!(f, " and some of {more} other shards")?,
        }
        for (place, variant) in left_out.iter().take(MAX_NAMED).enumerate() {
            let before = if place == 0 { "; left out for want of their program or kernel: " } else { ", " };
            write!(f, "{before}{variant}")?;
        }
        match left_out.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Describes numbers of points for a human reader: as a range if they are consecutive.
fn describe(numbers: &[u64]) -> String {
    match numbers {
        [first, .., last] if last - first == numbers.len() as u64 - 1 => format!("{first} to {last}"),
        _ => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests;
