//! Runs by which claims are judged: found where they were written, or made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anabranch_lab::claim::{Ablation, Claim, Need, Results};
use anabranch_lab::experiment::{self, Experiment, Source};
use anabranch_lab::record::Row;
use anabranch_lab::sweep::{self, SweepOptions};

use super::claims::Claims;
use super::watch::SweepProgress;
use super::{engines, version};
use crate::exit::{Exit, Failure, Result, note};

/// The runs of a `lab claims` command, made as claims need them.
pub(super) struct Runs<'a> {
    options: &'a Claims,
    progress: SweepProgress,
    /// Other directories with runs of an experiment, by the directory of its own.
    elsewhere: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Experiments that have none of the points that were asked for, and those that have some.
    empty: BTreeSet<&'static str>,
    used: BTreeSet<&'static str>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(options: &'a Claims) -> Result<Self> {
        let progress = SweepProgress::new()?;
        let (elsewhere, empty, used) = Default::default();
        Ok(Self { options, progress, elsewhere, empty, used })
    }

    /// Returns the results that the claim needs, with a setting changed in them if `ablation` is given.
    pub(super) fn of(&mut self, claim: &Claim, ablation: Option<&Ablation>) -> Result<Results> {
        let mut rows = Vec::new();
        for need in claim.needs.iter().chain(claim.further()) {
            for draw in 0..self.options.draws {
                match self.rows(need, draw, ablation)? {
                    Some(found) => {
                        self.used.insert(need.experiment);
                        rows.extend(found);
                    }
                    None => drop(self.empty.insert(need.experiment)),
                }
            }
        }
        Ok(rows.into_iter().collect())
    }

    /// Reports the experiments that have none of the points; fails if none has any.
    pub(super) fn left_out(&self) -> Result {
        let names: Vec<_> = self.empty.difference(&self.used).copied().collect();
        if names.is_empty() {
            return Ok(());
        }
        if self.used.is_empty() {
            return Err(
                Failure::new(Exit::Usage, format!("{}: no such points", names.join(", "))).or("see lab list")
            );
        }
        note(format_args!("left out, without any of the points: {}", names.join(", ")));
        Ok(())
    }

    /// Returns the rows of one draw; `None` if it has none of the points. Papers number theirs alike, but for a few
    /// experiments.
    fn rows(&mut self, need: &Need, draw: u32, ablation: Option<&Ablation>) -> Result<Option<Vec<Row>>> {
        let drawn = if draw == 0 { String::new() } else { format!("-draw-{draw}") };
        let changed = ablation.map_or_else(String::new, |ablation| format!("+{}", ablation.name));
        let dir = self.options.out.join(format!("{}{drawn}{changed}", need.experiment));
        if self.options.no_run {
            // Without results the verdict says what is missing.
            return Ok(Some(anabranch_lab::store::read(&dir).unwrap_or_default()));
        }
        let mut experiment = self.experiment(need.experiment, draw, ablation)?;
        experiment.repetitions = self.options.repetitions.unwrap_or(experiment.repetitions);
        let first = experiment.points.first().map_or(0, |point| point.run);
        let exists = |point: &u64| experiment.points.iter().any(|one| one.run == *point);
        // Draws number their points from different numbers on.
        let numbers =
            self.options.points.iter().flatten().map(|point| if draw == 0 { *point } else { point + first });
        let points = self.options.points.is_some().then(|| numbers.filter(exists).collect::<Vec<_>>());
        if points.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let also = self.elsewhere.entry(dir.clone());
        let also = also.or_insert_with(|| sweep::find(&[PathBuf::from(".")], &experiment, &version()));
        let run = version();
        let wanted = need.variants.iter().map(|variant| (*variant).to_owned()).collect();
        let variants = engines::without_absent(&experiment, Some(wanted), &run);
        if variants.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Some(anabranch_lab::store::read(&dir).unwrap_or_default()));
        }
        let options = SweepOptions {
            also: also.iter().filter(|found| **found != dir).cloned().collect(),
            dir,
            run,
            force: self.options.force,
            threads: self.options.threads.map_or(0, usize::from),
            variants,
            points,
            ..SweepOptions::default()
        };
        self.progress.sweep(&experiment, &options).map(Some)
    }

    fn experiment(&self, name: &str, draw: u32, ablation: Option<&Ablation>) -> Result<Experiment> {
        let usage = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, error);
        let source = match (&self.options.data, draw) {
            (Some(data), 0) => Source::Published(data),
            (_, draw) => Source::Drawn(draw),
        };
        let experiment = experiment::over(name, source).map_err(|error| usage(&error))?;
        match ablation {
            Some(ablation) => ablation.apply(experiment).map_err(|error| usage(&error)),
            None => Ok(experiment),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_lab::claim::PAPERS;

    use super::*;

    #[test]
    fn experiments_have_the_variants_that_claims_need() {
        for need in PAPERS.iter().flat_map(|paper| paper.claims).flat_map(|claim| claim.needs) {
            let known = experiment::named(need.experiment, None).unwrap();
            for variant in need.variants {
                assert!(known.variants.iter().any(|known| known.name == *variant), "{variant}");
            }
        }
    }
}
