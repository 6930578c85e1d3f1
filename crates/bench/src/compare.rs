//! Comparison of stacks on the same links in virtual time: runs of the lab's `compare` experiments, shown as
//! transfer time divided by the fluid bound of the point.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anabranch_lab::experiment::{self, Experiment};
use anabranch_lab::record::Row;
use anabranch_lab::stack;
use anabranch_lab::sweep::{Progress, SweepOptions, sweep};
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
}

/// The best run of a stack at a point.
#[derive(Clone, Debug, PartialEq)]
struct Best {
    stack: String,
    design: String,
    point: u64,
    paths: usize,
    time_over_bound: f64,
    transfer_time: f64,
    repeated_percent: Option<f64>,
}

/// Summary of a stack over all points of a design.
struct Summary {
    stack: String,
    design: String,
    points: usize,
    median: f64,
    worst: f64,
    worst_point: u64,
    repeated_percent: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
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
        all.extend(best(design, &rows));
    }
    if all.is_empty() {
        return Err(format!("there is no such design: use some of {}", designs().join(", ")).into());
    }
    let summaries = summaries(&all);
    let title =
        "Downloads beside other stacks in virtual time: transfer time over the fluid bound of all paths"
            .to_owned();
    let failed = failures.iter().map(|failure| format!("\n\nfailed: {failure}")).collect::<String>();
    Ok(Report {
        title: title + &failed,
        columns: vec!["design", "stack", "points", "median", "worst", "at point", "repeated %"],
        rows: summaries.iter().map(Summary::cells).collect(),
        json: json!({
            "rows": all.iter().map(Best::json).collect::<Vec<_>>(),
            "summary": summaries.iter().map(Summary::json).collect::<Vec<_>>(),
            "failures": failures,
        }),
    })
}

fn designs() -> Vec<&'static str> {
    experiment::COMPARE.iter().map(|name| name.strip_prefix(PREFIX).unwrap_or(name)).collect()
}

/// Makes the missing runs of the experiment, except those of stacks that are not built, and returns all rows.
fn rows(experiment: &Experiment, options: &Options) -> Result<Vec<Row>, Error> {
    let usual = || experiment.usual_variants().iter().map(|variant| variant.name.clone()).collect();
    let mut names: Vec<String> = options.variants.clone().unwrap_or_else(usual);
    // Variants of Linux are not run here but by `anabranch lab run`; their existing results are shown.
    let of_linux = |name: &str| {
        experiment.variants.iter().any(|variant| variant.name == name && variant.external().is_some())
    };
    names.retain(|name| !of_linux(name));
    for (variant, programs) in experiment.missing() {
        if names.iter().any(|name| name == variant) {
            eprintln!(
                "skipped: {variant}: there is no program {} (peers/build.sh guests)",
                programs.join(", ")
            );
        }
        names.retain(|name| name != variant);
    }
    let sweep_options = SweepOptions {
        dir: Path::new(&options.results).join(&experiment.name),
        threads: options.threads,
        variants: Some(names),
        points: options.points.clone(),
        force: true,
        ..SweepOptions::default()
    };
    let rows = sweep(experiment, &sweep_options, &Telling)?;
    let wanted = |row: &Row| options.points.as_ref().is_none_or(|points| points.contains(&row.point));
    Ok(rows.into_iter().filter(wanted).collect())
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

/// Returns the fastest run of each stack at each point. Variants that use a single path count as one stack, so
/// its run is that on the best path.
fn best(design: &str, rows: &[Row]) -> Vec<Best> {
    let of = |((stack, point, _), row): ((String, u64, u32), &Row)| {
        let (time, bound) = row.transfer_time_s.zip(row.bound_s)?;
        let alone = stack::of(&row.variant).1;
        Some(Best {
            stack,
            design: design.to_owned(),
            point,
            paths: if alone { 1 } else { row.path_rate_mbps.len() },
            time_over_bound: time / bound,
            transfer_time: time,
            repeated_percent: row.retransmitted_percent,
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
        let ratios: Vec<f64> = group.iter().map(|one| one.time_over_bound).collect();
        let repeated: Vec<f64> = group.iter().filter_map(|one| one.repeated_percent).collect();
        let summary = Summary {
            stack: stack.to_owned(),
            design: worst.design.clone(),
            points: group.len(),
            median: median(&ratios),
            worst: worst.time_over_bound,
            worst_point: worst.point,
            repeated_percent: median(&repeated),
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
            "design": self.design,
            "point": self.point,
            "paths": self.paths,
            "time_over_bound": rounded(self.time_over_bound),
            "transfer_time_s": self.transfer_time,
            "repeated_percent": self.repeated_percent,
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
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.design.clone(),
            self.stack.clone(),
            self.points.to_string(),
            format!("{:.3}", self.median),
            format!("{:.3}", self.worst),
            self.worst_point.to_string(),
            format!("{:.2}", self.repeated_percent),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, point: u64, time: f64) -> Row {
        Row {
            variant: variant.to_owned(),
            point,
            transfer_time_s: Some(time),
            bound_s: Some(2.0),
            path_rate_mbps: vec![1.0, 2.0],
            retransmitted_percent: Some(time),
            ..Row::default()
        }
    }

    #[test]
    fn stacks_are_summed_up_by_design() {
        let rows = [
            row("quinn-path-0", 0, 5.0),
            row("quinn-path-1", 0, 4.0),
            row("quinn-path-1", 1, 6.0),
            row("noq", 0, 3.0),
            row("quic-path-1", 0, 8.0),
        ];
        let best = best("2path-50mb", &rows);
        let told: Vec<_> =
            best.iter().map(|one| (one.stack.as_str(), one.point, one.paths, one.time_over_bound)).collect();
        let expected = [
            ("anabranch-best-path", 0, 1, 4.0),
            ("noq", 0, 2, 1.5),
            ("quinn-best-path", 0, 1, 2.0),
            ("quinn-best-path", 1, 1, 3.0),
        ];
        assert_eq!(told, expected);
        let summaries = summaries(&best);
        let told: Vec<_> =
            summaries.iter().map(|one| (one.stack.as_str(), one.points, one.median, one.worst)).collect();
        let expected =
            [("noq", 1, 1.5, 1.5), ("quinn-best-path", 2, 2.5, 3.0), ("anabranch-best-path", 1, 4.0, 4.0)];
        assert_eq!(told, expected);
        assert_eq!(summaries[1].json()["worst_point"], 1);
        assert_eq!(best[1].json()["repeated_percent"], 3.0);
    }
}
