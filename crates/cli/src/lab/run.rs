//! `anabranch lab run`: all runs of an experiment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anabranch::congestion::Algorithm;
use anabranch_lab::experiment::{self, Experiment, MAX_REPETITIONS, Workload};
use anabranch_lab::plan;
use anabranch_lab::profile::Wire;
use anabranch_lab::record::Row;
use anabranch_lab::run::RunOptions;
use anabranch_lab::sweep::{Shard, SweepOptions};
use clap::Args;

use super::watch::SweepProgress;
use super::{engines, figures, regret, share, side_by_side, stacks, summary, version};
use crate::exit::{Exit, Failure, Result, say};

/// Default directory of results; each experiment has a subdirectory of its name there.
pub(super) const RESULTS: &str = "lab-results";
/// Standard output.
pub(super) const STANDARD: &str = "-";

/// Name that selects all variants, including those that are not run by default.
const ALL: &str = "all";

/// Run an experiment: all its default variants at all its points
///
/// Results are written as runs finish. The same command, given again, continues an interrupted sweep. After
/// Ctrl-C, active runs have a second and a half to end; a second Ctrl-C drops them at once.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// An experiment (see `anabranch lab list`), `compare` for all that compare stacks, a plan of your own, or
    /// a folder of plans, which run one after the other
    #[arg(value_name = "NAME|PLAN.toml|FOLDER")]
    what: String,
    /// Directory of the results [default: lab-results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run these variants only; `all` selects every variant
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    variants: Option<Vec<String>>,
    /// Run these points only, by their numbers in the design
    #[arg(long, value_name = "0,4,8", value_delimiter = ',')]
    points: Option<Vec<u64>>,
    /// Directory with the published designs, if you have them
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Read the points from this file instead
    #[arg(long, value_name = "FILE.csv", conflicts_with = "data")]
    design: Option<PathBuf>,
    /// Repetitions of each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPETITIONS)))]
    repetitions: Option<u32>,
    /// Bytes of each download or upload
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    bytes: Option<u64>,
    /// Wire image of packets in all variants: v1, v2 or reverso
    #[arg(long, value_name = "WIRE")]
    wire: Option<Wire>,
    /// Congestion controller of all variants
    #[arg(long, value_name = "NAME")]
    congestion: Option<Algorithm>,
    /// Run only part I of N, counted from 0
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Add to results of another version of this program; each row names its own
    #[arg(long)]
    force: bool,
    /// Write traces (qlog) of both ends of every run into DIR/qlog
    #[arg(long)]
    qlog: bool,
    /// Write the summary as JSON to standard output
    #[arg(long, value_name = "-", value_parser = [STANDARD])]
    json: Option<String>,
}

/// File name of the figure of the schedulers' regret over all plans of a folder.
const REGRET: &str = "regret.svg";

/// Name that stands for all experiments that compare stacks.
const COMPARE: &str = "compare";

pub(super) fn run(options: Run) -> Result {
    let progress = SweepProgress::new()?;
    if options.what == COMPARE {
        return compare(&options, &progress);
    }
    if !Path::new(&options.what).is_dir() {
        return one(options, &progress).map(drop);
    }
    let (mut all, mut folder) = (Vec::new(), None);
    for plan in options.plans()? {
        let rows = one(plan.clone(), &progress)?;
        all.extend_from_slice(&rows);
        folder = plan.out.as_deref().and_then(Path::parent).map(Path::to_owned);
        match side_by_side::table(&rows) {
            Some(table) if plan.json.is_none() => say(format_args!("{table}\n"))?,
            _ => {}
        }
    }
    match (regret::table(&all), folder) {
        (Some(table), Some(folder)) if options.json.is_none() => {
            let file = folder.join(REGRET);
            regret::draw(&all, &file)?;
            say(format_args!("all plans, {table}\nfigure: {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Runs all experiments that compare stacks, and joins their results in a table and a figure. If an
/// experiment fails, its failure is printed and the others still run. The command then fails with the exit
/// status of the first failure.
fn compare(options: &Run, progress: &SweepProgress) -> Result {
    let folder = options.out.clone().unwrap_or_else(|| PathBuf::from(RESULTS));
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for name in experiment::COMPARE {
        let out = Some(folder.join(name));
        match one(Run { what: (*name).to_owned(), out, ..options.clone() }, progress) {
            Ok(rows) => all.extend(rows),
            Err(failure) if failure.exit() == Exit::Interrupted => return Err(failure),
            Err(failure) => {
                failure.clone().about(name).say();
                failed.push((*name, failure));
            }
        }
    }
    // The figure of a shard would show a part of the points.
    if options.shard.unwrap_or_default().of == 1 {
        stacks::finish(&all, &folder, options.json.is_some())?;
    }
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    match failed.first() {
        Some((_, first)) => {
            let (failed, of) = (names.len(), experiment::COMPARE.len());
            let what = format!("{failed} of {of} experiments have failed: {}", names.join(", "));
            Err(Failure::new(first.exit(), what))
        }
        None => Ok(()),
    }
}

/// Runs a single experiment and returns its rows. Prints the summary.
fn one(options: Run, progress: &SweepProgress) -> Result<Vec<Row>> {
    let experiment = options.experiment()?;
    let dir = options.out.unwrap_or_else(|| Path::new(RESULTS).join(&experiment.name));
    let all = options.variants.as_deref().is_some_and(|names| names == [ALL]);
    let wanted = match all {
        true => Some(experiment.variants.iter().map(|variant| variant.name.clone()).collect()),
        false => options.variants,
    };
    let variants = runnable(&experiment, wanted.clone())?;
    let qlog = options.qlog.then(|| dir.join("qlog"));
    let run = RunOptions { qlog, ..version() };
    let variants = engines::without_absent(&experiment, variants, &run);
    if variants.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::new(Exit::Usage, "no variant is left to run").or(engines::REMEDY));
    }
    let sweep_options = SweepOptions {
        dir,
        run,
        force: options.force,
        threads: options.threads.map_or(0, usize::from),
        shard: options.shard.unwrap_or_default(),
        left_out: left_out(&experiment, wanted.as_deref(), variants.as_deref()),
        variants: wanted,
        points: options.points,
        ..SweepOptions::default()
    };
    let rows = progress.sweep(&experiment, &sweep_options)?;
    let summaries = summary::of(&rows);
    // Figures of a single shard would lack runs; `lab merge` and `lab figures` draw them.
    let drawn = match sweep_options.shard.of {
        1 => Some(figures::draw(&sweep_options.dir, &rows)?),
        _ => None,
    };
    if options.json.is_some() {
        let variants: Vec<_> = summaries.iter().map(summary::Summary::json).collect();
        let dir = sweep_options.dir.display().to_string();
        let regret = regret::as_json(&rows);
        say(serde_json::json!({
            "experiment": experiment.name,
            "out": dir,
            "variants": variants,
            "regret": regret,
        }))?;
        return Ok(rows);
    }
    say(format_args!("{}: {}\n", experiment.name, experiment.about))?;
    for table in [regret::table(&rows), share::table(&rows)].into_iter().flatten() {
        say(format_args!("{table}\n"))?;
    }
    say(summary::table(&summaries))?;
    say(format_args!("results: {}", sweep_options.dir.display()))?;
    drawn.map_or(Ok(()), |drawn| say(figures::described(&drawn)))?;
    Ok(rows)
}

/// Removes the variants whose guest programs are not built from the wanted ones, and prints their names.
/// Without `wanted`, the default variants are wanted.
fn runnable(experiment: &Experiment, wanted: Option<Vec<String>>) -> Result<Option<Vec<String>>> {
    let missing = experiment.missing();
    if missing.is_empty() {
        return Ok(wanted);
    }
    let usual = || experiment.usual_variants().iter().map(|variant| variant.name.clone()).collect();
    let mut names: Vec<String> = wanted.unwrap_or_else(usual);
    let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (variant, programs) in &missing {
        if names.iter().any(|name| name == variant) {
            programs.iter().for_each(|program| skipped.entry(program).or_default().push(variant));
        }
    }
    for (program, variants) in &skipped {
        eprintln!("skipped: {}: there is no program {program} (peers/build.sh guests)", variants.join(", "));
    }
    names.retain(|name| missing.iter().all(|(variant, _)| name != variant));
    match names.is_empty() {
        true => {
            Err(Failure::new(Exit::Usage, "no variant is left to run: build the programs that are missing"))
        }
        false => Ok(Some(names)),
    }
}

/// Returns the names of the `wanted` variants that are not among those that this machine can run. `None`
/// stands for the default variants.
fn left_out(experiment: &Experiment, wanted: Option<&[String]>, runnable: Option<&[String]>) -> Vec<String> {
    let Some(runnable) = runnable else { return Vec::new() };
    let usual = || experiment.usual_variants().iter().map(|variant| variant.name.clone()).collect();
    let wanted: Vec<String> = wanted.map_or_else(usual, <[String]>::to_vec);
    wanted.into_iter().filter(|name| !runnable.contains(name)).collect()
}

impl Run {
    /// Returns a run for each plan of a folder, ordered by name, each with its own results directory.
    fn plans(&self) -> Result<Vec<Self>> {
        let usage = |error: String| Failure::new(Exit::Usage, format!("{}: {error}", self.what));
        let folder = Path::new(&self.what);
        let mut plans = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| usage(error.to_string()))? {
            let path = entry.map_err(|error| usage(error.to_string()))?.path();
            plans.extend(path.extension().is_some_and(|ending| ending == "toml").then_some(path));
        }
        plans.sort();
        if plans.is_empty() {
            return Err(usage("there is no plan (`*.toml`) in this folder".to_owned()));
        }
        let name = folder.file_name().unwrap_or(folder.as_os_str());
        let out = self.out.clone().unwrap_or_else(|| Path::new(RESULTS).join(name));
        let one = |plan: PathBuf| Self {
            out: plan.file_stem().map(|stem| out.join(stem)),
            what: plan.display().to_string(),
            ..self.clone()
        };
        Ok(plans.into_iter().map(one).collect())
    }

    /// Returns the experiment with the changes of the command line.
    fn experiment(&self) -> Result<Experiment> {
        let usage = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, error);
        let is_plan = Path::new(&self.what).extension().is_some_and(|ending| ending == "toml");
        let mut experiment = if is_plan {
            plan::read(Path::new(&self.what)).map_err(|error| usage(&error))?
        } else {
            experiment::named(&self.what, self.data.as_deref()).map_err(|error| usage(&error))?
        };
        if let Some(design) = &self.design {
            experiment = experiment.with_design(design).map_err(|error| usage(&error))?;
        }
        if let Some(wire) = self.wire {
            experiment = experiment.over_wire(wire);
        }
        if let Some(congestion) = self.congestion {
            experiment = experiment.under_congestion(congestion);
        }
        experiment.repetitions = self.repetitions.unwrap_or(experiment.repetitions);
        match (&mut experiment.workload, self.bytes) {
            (Workload::Download { bytes, .. } | Workload::Upload { bytes }, Some(wanted)) => *bytes = wanted,
            (_, None) => {}
            (_, Some(_)) => return Err(usage(&format!("{} has no download for --bytes", experiment.name))),
        }
        Ok(experiment)
    }
}

fn shard(text: &str) -> std::result::Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((index, of)) if index < of => Ok(Shard { index, of }),
        _ => Err("expected I/N with I from 0 to N-1, for example 0/4".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_0() {
        assert_eq!(shard("0/1"), Ok(Shard { index: 0, of: 1 }));
        assert_eq!(shard("3/4"), Ok(Shard { index: 3, of: 4 }));
        for wrong in ["4/4", "1", "1/0", "-1/2", "a/b", "1/2/3", ""] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
