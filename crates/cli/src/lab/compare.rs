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
    /// Fail if the median ratio of a variant differs from 1 by more than this many percent, or if none of its pairs ended
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
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
    options.limit.map_or(Ok(()), |limit| found.iter().try_for_each(|one| within(one, limit)))
}

/// Fails if the median ratio differs from 1 by more than `limit` percent, or if there is no pair.
fn within(one: &Difference, limit: f64) -> Result {
    let what = match one.median() {
        Some(median) if (median - 1.0).abs() <= limit / 100.0 => return Ok(()),
        Some(_) => "transfer times have moved",
        None => "no pair of runs has ended",
    };
    Err(Failure::new(Exit::Incomplete, format!("{}: {what}", one.variant))
        .or("see the table; results that are meant become the new A"))
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let percent = text.parse().ok().filter(|percent: &f64| percent.is_finite() && *percent >= 0.0);
    percent.ok_or_else(|| "expected a number of percent, 0 or more".to_owned())
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
