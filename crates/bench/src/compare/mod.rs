//! Comparison of stacks on the same links in virtual time: runs of the lab's `compare` experiments, shown as
//! transfer time divided by the fluid bound of the point.

mod cpu;
pub(crate) mod guest;

use std::ops::ControlFlow;
use std::path::PathBuf;

use anabranch_lab::experiment::{self, Experiment};
use anabranch_lab::record::Row;
use anabranch_lab::run::RunOptions;
use anabranch_lab::stack::{self, Standing};
use anabranch_lab::sweep::{Progress, SweepError, SweepOptions, look, sweep};
use clap::Args;
use serde_json::{Value, json};

use crate::Error;
use crate::report::{Report, median, rounded};

/// Prefix of the names of experiments that compare stacks.
const PREFIX: &str = "compare-";

#[derive(Args)]
pub(crate) struct Options {
    /// Directory of the results, as `anabranch lab run compare` writes them; runs that are missing are made
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    results: PathBuf,
    /// Only these designs, such as 2path-50mb
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    designs: Vec<String>,
    /// Only these points (the column `run`)
    #[arg(long, value_delimiter = ',', value_name = "RUN,…")]
    points: Option<Vec<u64>>,
    /// Only these variants, as `anabranch lab list compare-2path-50mb` names them
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    variants: Option<Vec<String>>,
    /// Number of threads; 0 for one for each processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Show the runs that are there, whatever version made them, and make none
    #[arg(long)]
    no_run: bool,
    /// Number of points of each design at which CPU time is measured, which takes a run of each stack without
    /// others beside it
    #[arg(long, default_value_t = 3, value_name = "N")]
    cpu: usize,
}

/// The best run of a stack at a point.
#[derive(Clone, Debug, PartialEq)]
struct Best {
    stack: String,
    /// Name of the run's variant.
    variant: String,
    design: String,
    point: u64,
    paths: usize,
    time_over_bound: f64,
    transfer_time: f64,
    repeated_percent: Option<f64>,
    /// Packets that the sender declared lost; for Linux's TCP, segments that it sent again.
    lost: Option<u64>,
    /// CPU seconds of both ends together.
    cpu: Option<f64>,
}

/// Summary of a stack over all points of a design. Medians are NaN if no run has a value.
struct Summary {
    standing: Standing,
    /// Median of the repeated bytes in percent.
    repeated_percent: f64,
    /// Median of the lost packets.
    lost: f64,
    /// Median of the CPU seconds.
    cpu: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let known = designs();
    if let Some(name) = options.designs.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no design `{name}`: use some of {}", known.join(", ")).into());
    }
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for name in experiment::COMPARE {
        let design = design(name);
        if !options.designs.is_empty() && !options.designs.iter().any(|wanted| wanted == design) {
            continue;
        }
        let experiment = experiment::named(name, None)?;
        let some = rows_of(&experiment, options)?;
        let mut best = best(design, &some);
        cpu::measure(&experiment, &mut best, options.cpu)?;
        all.extend(best);
        rows.extend(some);
    }
    if rows.is_empty() {
        return Err(format!("{}: there are no such runs", options.results.display()).into());
    }
    Ok(report(&rows, &all))
}

fn report(rows: &[Row], all: &[Best]) -> Report {
    let summaries = summaries(rows, all);
    let failed = rows.iter().filter(|row| !row.failure.is_empty());
    let failures: Vec<String> = failed
        .map(|row| {
            format!("{}, point {}, {}: {}", design(&row.experiment), row.point, row.variant, row.failure)
        })
        .collect();
    let title = "Downloads beside other stacks in virtual time: transfer time over the fluid bound of all paths; losses, \
                 repeated bytes and CPU seconds of both ends are medians"
        .to_owned();
    let failed = failures.iter().map(|failure| format!("\n\nfailed: {failure}")).collect::<String>();
    Report {
        title: title + &failed,
        columns: vec![
            "design",
            "stack",
            "points",
            "failed",
            "median",
            "worst",
            "at point",
            "lost packets",
            "repeated %",
            "CPU s",
        ],
        rows: summaries.iter().map(Summary::cells).collect(),
        json: json!({
            "rows": all.iter().map(Best::json).collect::<Vec<_>>(),
            "summary": summaries.iter().map(Summary::json).collect::<Vec<_>>(),
            "failures": failures,
        }),
    }
}

fn designs() -> Vec<&'static str> {
    experiment::COMPARE.iter().map(|name| design(name)).collect()
}

/// Returns the version that rows and journals state. It equals that of the command `anabranch`, built from
/// the same sources.
fn version() -> RunOptions {
    RunOptions {
        commit: env!("ANABRANCH_COMMIT").to_owned(),
        sources: env!("ANABRANCH_SOURCES").to_owned(),
        ..RunOptions::default()
    }
}

/// Returns the rows of the experiment. Runs that are missing are made first, except those of stacks that are
/// not built. If no runs are missing, nothing is written.
fn rows_of(experiment: &Experiment, options: &Options) -> Result<Vec<Row>, Error> {
    let usual = || experiment.usual_variants().iter().map(|variant| variant.name.clone()).collect();
    let asked: Vec<String> = options.variants.clone().unwrap_or_else(usual);
    let absent = absent(experiment);
    let here = |name: &String| absent.iter().all(|(variant, _)| variant != name);
    let sweep_options = SweepOptions {
        dir: options.results.join(&experiment.name),
        run: version(),
        threads: options.threads,
        variants: Some(asked.iter().filter(|name| here(name)).cloned().collect()),
        points: options.points.clone(),
        ..SweepOptions::default()
    };
    let present = look(experiment, &sweep_options)?;
    let rows = match present.missing {
        0 => present.rows,
        missing if options.no_run => {
            eprintln!("{}: {missing} runs are not there", experiment.name);
            present.rows
        }
        _ => sweep(experiment, &sweep_options, &Telling).map_err(refused)?,
    };
    for (variant, why) in absent.iter().filter(|(variant, _)| asked.contains(variant)) {
        if !rows.iter().any(|row| row.variant == *variant) {
            eprintln!("skipped: {variant}: {why}");
        }
    }
    let wanted = |row: &Row| {
        let point = options.points.as_ref().is_none_or(|points| points.contains(&row.point));
        point && options.variants.as_ref().is_none_or(|names| names.contains(&row.variant))
    };
    Ok(rows.into_iter().filter(wanted).collect())
}

/// Returns the variants that cannot run here, each with the reason. Their runs are shown if they were made
/// elsewhere.
fn absent(experiment: &Experiment) -> Vec<(String, String)> {
    let external = experiment.variants.iter().filter(|variant| variant.external().is_some());
    let external = external
        .map(|variant| (variant.name.clone(), format!("`anabranch lab run {}` runs it", experiment.name)));
    let programs = experiment.missing().into_iter().map(|(variant, programs)| {
        let why = format!("there is no program {} (peers/build.sh guests)", programs.join(", "));
        (variant.to_owned(), why)
    });
    external.chain(programs).collect()
}

/// Adds the possible remedies to the error for a directory of another version.
fn refused(error: SweepError) -> Error {
    match error {
        SweepError::OtherVersion { .. } => {
            format!("{error}; --no-run shows what is there, --results names another directory").into()
        }
        error => error.into(),
    }
}

/// Progress receiver that prints failed runs to standard error.
struct Telling;

impl Progress for Telling {
    fn finished(&self, row: &Row) -> ControlFlow<()> {
        if !row.failure.is_empty() {
            eprintln!("{}, point {}, {}: {}", row.experiment, row.point, row.variant, row.failure);
        }
        ControlFlow::Continue(())
    }
}

/// Returns the fastest run of each stack at each point. Variants of one program that use different single
/// paths count as one stack, so only the run on the best path remains.
fn best(design: &str, rows: &[Row]) -> Vec<Best> {
    let of = |((stack, point, _), row): ((String, u64, u32), &Row)| {
        let (time, bound) = row.transfer_time_s.zip(row.bound_s)?;
        let alone = stack::of(&row.variant).1;
        Some(Best {
            stack,
            variant: row.variant.clone(),
            design: design.to_owned(),
            point,
            paths: if alone { 1 } else { row.path_rate_mbps.len() },
            time_over_bound: time / bound,
            transfer_time: time,
            repeated_percent: row.retransmitted_percent,
            lost: row.lost_packets,
            cpu: None,
        })
    };
    stack::best(rows).into_iter().filter_map(of).collect()
}

/// Returns the summary of each stack in each design, in the order of designs and of medians.
fn summaries(rows: &[Row], all: &[Best]) -> Vec<Summary> {
    let summary = |standing: Standing| {
        let is_of = |one: &&Best| one.stack == standing.stack && one.design == design(&standing.experiment);
        let middle = |value: fn(&Best) -> Option<f64>| {
            median(&all.iter().filter(is_of).filter_map(value).collect::<Vec<_>>())
        };
        Summary {
            repeated_percent: middle(|one| one.repeated_percent),
            lost: middle(|one| one.lost.map(|packets| packets as f64)),
            cpu: middle(|one| one.cpu),
            standing,
        }
    };
    let place = |one: &Standing| experiment::COMPARE.iter().position(|name| *name == one.experiment);
    let time = |one: &Standing| one.median().unwrap_or(f64::INFINITY);
    let mut standings = stack::standings(rows);
    standings.sort_by(|one, other| place(one).cmp(&place(other)).then(time(one).total_cmp(&time(other))));
    standings.into_iter().map(summary).collect()
}

/// Returns the name of an experiment without its prefix.
fn design(experiment: &str) -> &str {
    experiment.strip_prefix(PREFIX).unwrap_or(experiment)
}

impl Best {
    fn json(&self) -> Value {
        json!({
            "stack": self.stack,
            "variant": self.variant,
            "design": self.design,
            "point": self.point,
            "paths": self.paths,
            "time_over_bound": rounded(self.time_over_bound),
            "transfer_time_s": self.transfer_time,
            "repeated_percent": self.repeated_percent,
            "lost_packets": self.lost,
            "cpu_s": self.cpu.map(rounded),
        })
    }
}

impl Summary {
    fn json(&self) -> Value {
        let worst = self.standing.worst();
        json!({
            "stack": self.standing.stack,
            "design": design(&self.standing.experiment),
            "points": self.standing.ratios.len(),
            "failed": self.standing.failed,
            "median": self.standing.median().map(rounded),
            "worst": worst.map(|(_, ratio)| rounded(ratio)),
            "worst_point": worst.map(|(point, _)| point),
            "median_repeated_percent": self.repeated_percent,
            "median_lost_packets": self.lost,
            "median_cpu_s": rounded(self.cpu),
        })
    }

    fn cells(&self) -> Vec<String> {
        let number = |value: f64, digits: usize| {
            if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
        };
        let worst = self.standing.worst();
        vec![
            design(&self.standing.experiment).to_owned(),
            self.standing.stack.clone(),
            self.standing.ratios.len().to_string(),
            self.standing.failed.to_string(),
            number(self.standing.median().unwrap_or(f64::NAN), 3),
            number(worst.map_or(f64::NAN, |(_, ratio)| ratio), 3),
            worst.map_or_else(|| "-".to_owned(), |(point, _)| point.to_string()),
            number(self.lost, 1),
            number(self.repeated_percent, 2),
            number(self.cpu, 3),
        ]
    }
}

#[cfg(test)]
mod tests;
