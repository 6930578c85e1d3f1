//! Runs by which claims are judged: read from directories of results, or made if they are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anabranch_lab::claim::{Ablation, Claim, Need, Results};
use anabranch_lab::experiment::{self, Experiment, MAX_REPETITIONS, Source};
use anabranch_lab::record::Row;
use anabranch_lab::sweep::{self, SweepOptions};
use clap::Args;

use super::run::RESULTS;
use super::watch::SweepProgress;
use super::{engines, version};
use crate::exit::{Exit, Failure, Result, note};

/// Options of the runs that claims are judged by.
#[derive(Args, Debug)]
pub(super) struct RunsOptions {
    /// Directory that contains a directory of results for each experiment
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    out: PathBuf,
    /// Directory with the published designs, if you have them
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run only the points with these numbers in their design; experiments without any of them are left out
    #[arg(long, value_name = "0,4,8", value_delimiter = ',')]
    points: Option<Vec<u64>>,
    /// Repetitions of each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPETITIONS)))]
    repetitions: Option<u32>,
    /// Judge by this many random draws of each generated design, each with its own seeds; with --data, the
    /// published points take the place of the first draw
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    draws: u32,
    /// Judge only by existing results, without new runs
    #[arg(long)]
    pub(super) no_run: bool,
    /// Add to results of another version of this program; each row names its own
    #[arg(long)]
    force: bool,
    /// Number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Names of variants.
type Names = Vec<&'static str>;

/// The runs of a `lab claims` command, made as claims need them.
pub(super) struct Runs<'a> {
    options: &'a RunsOptions,
    progress: SweepProgress,
    /// For each experiment's own directory, the other directories that contain runs of the experiment.
    elsewhere: BTreeMap<PathBuf, Vec<PathBuf>>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(options: &'a RunsOptions) -> Result<Self> {
        let progress = SweepProgress::new()?;
        Ok(Self { options, progress, elsewhere: BTreeMap::new() })
    }

    /// Returns the results that the claim needs. With `ablation`, they are those of runs with its setting
    /// changed.
    pub(super) fn of(&mut self, claim: &Claim, ablation: Option<&Ablation>) -> Result<Results> {
        let mut rows = Vec::new();
        for need in claim.needs.iter().chain(claim.further()) {
            for draw in 0..self.options.draws {
                // Variants that the setting does not change keep their runs.
                let (changed, kept) = self.divided(need, ablation)?;
                for (variants, ablation) in [(changed, ablation), (kept, None)] {
                    if !variants.is_empty() {
                        let found = self.rows(need.experiment, &variants, draw, ablation)?;
                        // The directory may contain further variants, for instance those that the setting
                        // changes.
                        let is_wanted = |row: &Row| variants.contains(&row.variant.as_str());
                        rows.extend(found.into_iter().flatten().filter(is_wanted));
                    }
                }
            }
        }
        Ok(rows.into_iter().collect())
    }

    /// Returns the names of the need's variants in two groups: those that `ablation` changes, and the others.
    fn divided(&self, need: &Need, ablation: Option<&Ablation>) -> Result<(Names, Names)> {
        let experiment = self.experiment(need.experiment, 0, None)?;
        let changes = |name: &&str| {
            let variant = experiment.variants.iter().find(|variant| variant.name == **name);
            ablation.zip(variant).is_some_and(|(ablation, variant)| ablation.changes(variant))
        };
        Ok(need.variants.iter().copied().partition(changes))
    }

    /// Reports the experiments that have none of the points of `--points`; fails if no experiment has any.
    pub(super) fn check_points(&self, claims: &[&Claim]) -> Result {
        let Some(points) = self.options.points.as_ref().filter(|_| !self.options.no_run) else {
            return Ok(());
        };
        let needed: BTreeSet<&str> =
            claims.iter().flat_map(|claim| claim.needs).map(|need| need.experiment).collect();
        let mut empty = Vec::new();
        for name in &needed {
            let experiment = self.experiment(name, 0, None)?;
            if !experiment.points.iter().any(|point| points.contains(&point.run)) {
                empty.push(*name);
            }
        }
        if empty.is_empty() {
            return Ok(());
        }
        let names = empty.join(", ");
        if empty.len() == needed.len() {
            return Err(Failure::new(Exit::Usage, format!("{names}: no such points")).or("see lab list"));
        }
        note(format_args!("left out, without any of the points: {names}"));
        Ok(())
    }

    /// Returns the rows of one draw; `None` if its experiment has none of the points of `--points`.
    fn rows(
        &mut self,
        name: &str,
        variants: &[&str],
        draw: u32,
        ablation: Option<&Ablation>,
    ) -> Result<Option<Vec<Row>>> {
        let drawn = if draw == 0 { String::new() } else { format!("-draw-{draw}") };
        let changed = ablation.map_or_else(String::new, |ablation| format!("+{}", ablation.name));
        let dir = self.options.out.join(format!("{name}{drawn}{changed}"));
        if self.options.no_run {
            // Without results, the verdict states which runs are missing.
            return Ok(Some(anabranch_lab::store::read(&dir).unwrap_or_default()));
        }
        let mut experiment = self.experiment(name, draw, ablation)?;
        experiment.repetitions = self.options.repetitions.unwrap_or(experiment.repetitions);
        let first = experiment.points.first().map_or(0, |point| point.run);
        let exists = |point: &u64| experiment.points.iter().any(|one| one.run == *point);
        // The numbers of a draw's points begin at `first`, which differs between draws.
        let numbers =
            self.options.points.iter().flatten().map(|point| if draw == 0 { *point } else { point + first });
        let points = self.options.points.is_some().then(|| numbers.filter(exists).collect::<Vec<_>>());
        if points.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let also = self.elsewhere.entry(dir.clone());
        let also = also.or_insert_with(|| sweep::find(&[PathBuf::from(".")], &experiment, &version()));
        let run = version();
        let wanted = variants.iter().map(|variant| (*variant).to_owned()).collect();
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
