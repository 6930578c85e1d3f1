//! Comparison of stacks on the same links in virtual time: runs of the lab's `compare` experiments, shown as
//! transfer time divided by the fluid bound of the point.

mod cpu;
pub(crate) mod guest;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anabranch_lab::experiment::{self, Experiment};
use anabranch_lab::record::Row;
use anabranch_lab::run::RunOptions;
use anabranch_lab::stack;
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
    /// Number of points of each design at which CPU time is measured, which takes a run of each stack without others
    /// beside it
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

/// Summary of a stack over all points of a design.
struct Summary {
    stack: String,
    design: String,
    points: usize,
    median: f64,
    worst: f64,
    worst_point: u64,
    /// Medians.
    repeated_percent: f64,
    lost: f64,
    cpu: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let known = designs();
    if let Some(name) = options.designs.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no design `{name}`: use some of {}", known.join(", ")).into());
    }
    let mut all = Vec::new();
    let mut failures = Vec::new();
    for name in experiment::COMPARE {
        let design = name.strip_prefix(PREFIX).unwrap_or(name);
        if !options.designs.is_empty() && !options.designs.iter().any(|wanted| wanted == design) {
            continue;
        }
        let experiment = experiment::named(name, None)?;
        let rows = rows(&experiment, options)?;
        failures.extend(
            rows.iter()
                .filter(|row| !row.failure.is_empty())
                .map(|row| format!("{design}, point {}, {}: {}", row.point, row.variant, row.failure)),
        );
        let mut best = best(design, &rows);
        cpu::measure(&experiment, &mut best, options.cpu)?;
        all.extend(best);
    }
    if all.is_empty() && failures.is_empty() {
        return Err(format!("{}: there are no such runs", options.results.display()).into());
    }
    Ok(report(&all, &failures))
}

fn report(all: &[Best], failures: &[String]) -> Report {
    let summaries = summaries(all);
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
    experiment::COMPARE.iter().map(|name| name.strip_prefix(PREFIX).unwrap_or(name)).collect()
}

/// Returns the version that rows and journals state: that of the command `anabranch`, built from the same sources.
fn version() -> RunOptions {
    RunOptions {
        commit: env!("ANABRANCH_COMMIT").to_owned(),
        sources: env!("ANABRANCH_SOURCES").to_owned(),
        ..RunOptions::default()
    }
}

/// Returns the rows of the experiment. Runs that are missing are made, except those of stacks that are not built; if
/// none is missing, nothing is written.
fn rows(experiment: &Experiment, options: &Options) -> Result<Vec<Row>, Error> {
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

/// Returns the variants that cannot run here, each with the reason. Their runs are shown where others have made them.
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

/// Observer that prints failed runs to standard error.
struct Telling;

impl Progress for Telling {
    fn finished(&self, row: &Row) -> ControlFlow<()> {
        if !row.failure.is_empty() {
            eprintln!("{}, point {}, {}: {}", row.experiment, row.point, row.variant, row.failure);
        }
        ControlFlow::Continue(())
    }
}

/// Returns the fastest run of each stack at each point. Variants of one program that each use a single path
/// count as one stack, so only the run on the best path remains.
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
fn summaries(all: &[Best]) -> Vec<Summary> {
    let mut groups: BTreeMap<(usize, &str), Vec<&Best>> = BTreeMap::new();
    let place = |design: &str| designs().iter().position(|name| *name == design).unwrap_or_default();
    for one in all {
        groups.entry((place(&one.design), &one.stack)).or_default().push(one);
    }
    let mut summaries: Vec<(usize, Summary)> = Vec::new();
    for ((place, stack), group) in groups {
        let Some(worst) =
            group.iter().max_by(|one, other| one.time_over_bound.total_cmp(&other.time_over_bound))
        else {
            continue;
        };
        let middle = |value: fn(&Best) -> Option<f64>| {
            median(&group.iter().filter_map(|one| value(one)).collect::<Vec<_>>())
        };
        let summary = Summary {
            stack: stack.to_owned(),
            design: worst.design.clone(),
            points: group.len(),
            median: middle(|one| Some(one.time_over_bound)),
            worst: worst.time_over_bound,
            worst_point: worst.point,
            repeated_percent: middle(|one| one.repeated_percent),
            lost: middle(|one| one.lost.map(|packets| packets as f64)),
            cpu: middle(|one| one.cpu),
        };
        summaries.push((place, summary));
    }
    summaries.sort_by(|(one, a), (other, b)| one.cmp(other).then(a.median.total_cmp(&b.median)));
    summaries.into_iter().map(|(_, summary)| summary).collect()
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
        json!({
            "stack": self.stack,
            "design": self.design,
            "points": self.points,
            "median": rounded(self.median),
            "worst": rounded(self.worst),
            "worst_point": self.worst_point,
            "median_repeated_percent": self.repeated_percent,
            "median_lost_packets": self.lost,
            "median_cpu_s": rounded(self.cpu),
        })
    }

    fn cells(&self) -> Vec<String> {
        let number = |value: f64, digits: usize| {
            if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
        };
        vec![
            self.design.clone(),
            self.stack.clone(),
            self.points.to_string(),
            number(self.median, 3),
            number(self.worst, 3),
            self.worst_point.to_string(),
            number(self.lost, 1),
            number(self.repeated_percent, 2),
            number(self.cpu, 3),
        ]
    }
}

#[cfg(test)]
mod tests;
