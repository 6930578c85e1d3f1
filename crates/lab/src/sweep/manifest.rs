//! Requested runs of a sweep, and the missing ones of them when sweeps are merged.

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
    /// Indices of those of the variants that this machine cannot run, in ascending order. They count in the division into
    /// shards, so that all machines divide the runs in the same way.
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

    /// Returns the runs of all shards, in their order, with those that this machine cannot run.
    fn whole(&self) -> impl Iterator<Item = Job> {
        self.variants.iter().flat_map(move |&variant| {
            self.points.iter().flat_map(move |&point| {
                (0..self.repetitions).map(move |repetition| Job { variant, point, repetition })
            })
        })
    }
}

impl Missing {
    /// Returns the runs that were `asked` for but are not `there`. The request for one shard implies the other shards. Runs
    /// of variants that all machines left out are not missing. `name` returns the name of a variant.
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
mod tests {
    use super::*;

    fn asked(variants: &[usize], points: &[usize], repetitions: u32, index: usize, of: usize) -> Manifest {
        let shard = Shard { index, of };
        let left_out = Vec::new();
        Manifest { variants: variants.to_vec(), points: points.to_vec(), repetitions, shard, left_out }
    }

    fn lacking(asked: &[Manifest], there: &BTreeSet<Job>) -> Missing {
        Missing::of(asked.iter(), there, |variant| format!("v{variant}"))
    }

    #[test]
    fn shards_divide_what_was_asked_for() {
        let whole: Vec<Job> = asked(&[0, 2], &[1, 3], 3, 0, 1).jobs().collect();
        assert_eq!(whole.len(), 12);
        assert!(whole.is_sorted());
        let mut shards: Vec<Job> = (0..5)
            .flat_map(|index| asked(&[0, 2], &[1, 3], 3, index, 5).jobs().collect::<Vec<_>>())
            .collect();
        shards.sort();
        assert_eq!(shards, whole);
    }

    #[test]
    fn one_shard_tells_what_others_lack() {
        let shard = |index| asked(&[0], &[4, 9], 5, index, 3);
        let there = BTreeSet::from_iter(shard(0).jobs().chain(shard(2).jobs().skip(1)));
        let missing = lacking(&[shard(0)], &there);
        assert_eq!((missing.runs, missing.of), (4, 10));
        assert_eq!(missing.to_string(), "4 of 10 runs are missing: 3 of shard 1/3, 1 of shard 2/3");
        // The same runs are also requested in other shards, and one more repetition of a point without
        // shards.
        let more = [shard(0), asked(&[0], &[4, 9], 5, 1, 2), asked(&[0], &[4], 6, 0, 1)];
        let missing = lacking(&more, &there);
        assert_eq!((missing.runs, missing.of), (5, 11));
        assert_eq!(lacking(&[shard(0)], &shard(0).whole().collect()).runs, 0);
        let none = lacking(&[asked(&[0], &[0], 20, 0, 20)], &BTreeSet::new()).to_string();
        assert!(none.ends_with(", 1 of shard 7/20 and some of 12 other shards"), "{none}");
    }

    /// Two machines of a cluster lack a kernel: the division is the same on all three.
    #[test]
    fn variants_that_a_machine_cannot_run_count_in_the_division() {
        let shard = |index, left_out: &[usize]| Manifest {
            left_out: left_out.to_vec(),
            ..asked(&[0, 1, 5], &[2, 3], 2, index, 3)
        };
        let there = |all: &[Manifest]| all.iter().flat_map(|one| one.jobs().collect::<Vec<_>>()).collect();
        let some = [shard(0, &[]), shard(1, &[1]), shard(2, &[1])];
        assert_eq!(some[1].variants(), [0, 5]);
        let done: BTreeSet<Job> = there(&some);
        assert_eq!(done.len(), 9, "each run once");
        let missing = lacking(&some, &done);
        assert_eq!((missing.runs, missing.of), (3, 12));
        let said = "3 of 12 runs are missing: 2 of shard 1/3, 1 of shard 2/3; left out for want of their program or kernel: v1";
        assert_eq!(missing.to_string(), said);
        // If no machine has the kernel, its runs are not requested. If all machines have it, no run is missing.
        let none = [0, 1, 2].map(|index| shard(index, &[1]));
        assert_eq!(lacking(&none, &there(&none)), Missing { of: 8, ..Missing::default() });
        let again = [some.clone(), [0, 1, 2].map(|index| shard(index, &[]))].concat();
        assert_eq!(lacking(&again, &there(&again)).runs, 0);
        let many: Vec<usize> = (0..20).collect();
        let both = [0, 1].map(|index| Manifest {
            left_out: if index == 0 { Vec::new() } else { many.clone() },
            ..asked(&many, &[0, 1], 1, index, 2)
        });
        let said = lacking(&both, &there(&both)).to_string();
        assert!(said.ends_with(": v0, v1, v10, v11, v12, v13, v14, v15 and 12 more"), "{said}");
    }
}
