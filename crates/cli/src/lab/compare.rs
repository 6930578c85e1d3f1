//! `anabranch lab compare`: compares the runs in two directories of results, pair by pair.

use std::path::PathBuf;

use anabranch_lab::difference::{Difference, differences};
use anabranch_lab::figure::{self, svg};
use anabranch_lab::store;
use clap::Args;
use serde_json::json;

use super::run::STANDARD;
use crate::exit::{Exit, Failure, Result, say};

/// Compare two directories of results: each run with the run of the same variant, point and repetition
///
/// Ratios are transfer times of B divided by those of A: if they are below 1, B is faster. The interval
/// contains 95 % of the medians of bootstrap samples, whose pairs are drawn with replacement.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Directory of the results before a change
    #[arg(value_name = "A")]
    before: PathBuf,
    /// Directory of the results after the change
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Write the distribution of the ratios as a picture
    #[arg(long, value_name = "FILE.svg")]
    figure: Option<PathBuf>,
    /// Fail if the median ratio of a variant differs from 1 by more than this many percent
    #[arg(long, value_name = "PERCENT")]
    limit: Option<f64>,
    /// Write the comparison as JSON to standard output
    #[arg(long, value_name = "-", value_parser = [STANDARD])]
    json: Option<String>,
}

pub(super) fn run(options: &Compare) -> Result {
    let found = differences(&store::read(&options.before)?, &store::read(&options.after)?);
    if found.is_empty() {
        let said =
            format!("{} and {} have no run in common", options.before.display(), options.after.display());
        return Err(
            Failure::new(Exit::Usage, said).or("give results of the same experiment, variants and points")
        );
    }
    if let Some(file) = &options.figure {
        let io =
            |error: &dyn std::fmt::Display| Failure::new(Exit::Io, format!("{}: {error}", file.display()));
        if let Some(chart) = figure::difference::chart(&found) {
            let picture = svg::draw(&chart).map_err(|fault| io(&fault))?;
            std::fs::write(file, picture).map_err(|error| io(&error))?;
        }
    }
    match options.json {
        Some(_) => say(json!({ "variants": found.iter().map(as_json).collect::<Vec<_>>() }))?,
        None => {
            let header = ["variant", "pairs", "median", "95 %", "faster", "slower", "worst point", "failed"];
            say(crate::table::table(&header, &[0], found.iter().map(cells)))?;
        }
    }
    let moved = |one: &&Difference| {
        let limit = options.limit.unwrap_or(f64::INFINITY) / 100.0;
        one.median().is_some_and(|median| (median - 1.0).abs() > limit)
    };
    match found.iter().find(moved) {
        Some(one) => {
            Err(Failure::new(Exit::Incomplete, format!("{}: transfer times have moved", one.variant))
                .or("see the table; results that are meant become the new A"))
        }
        None => Ok(()),
    }
}

fn cells(one: &Difference) -> Vec<String> {
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let interval = one.interval().map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.4}–{high:.4}"));
    let worst = one.worst().map_or_else(|| "-".to_owned(), |(point, ratio)| format!("{point}: {ratio:.3}"));
    let (faster, slower) = one.moved();
    let counts = [one.ratios.len(), faster, slower, one.failed].map(|count| count.to_string());
    let [pairs, faster, slower, failed] = counts;
    vec![one.variant.clone(), pairs, ratio(one.median()), interval, faster, slower, worst, failed]
}

fn as_json(one: &Difference) -> serde_json::Value {
    let (faster, slower) = one.moved();
    json!({
        "experiment": one.experiment,
        "variant": one.variant,
        "pairs": one.ratios.len(),
        "median": one.median(),
        "interval": one.interval(),
        "faster": faster,
        "slower": slower,
        "worst": one.worst().map(|(point, ratio)| json!({ "point": point, "ratio": ratio })),
        "failed": one.failed,
    })
}
