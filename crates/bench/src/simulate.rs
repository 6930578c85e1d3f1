//! Cost of the simulator: one download over two paths in virtual time, repeated in one process.

use std::time::Instant;

use anabranch_lab::transfer::Measured;
use anabranch_workloads::transfer::{LINKS, two_paths};
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::child::Cost;
use crate::report::{Report, median, rounded};

/// Number of bytes to which results are scaled.
const BYTES: f64 = 50e6;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of runs of the same transfer; the report contains medians
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes of the download
    #[arg(long, default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Cost of one run, in seconds.
struct Round {
    cpu: f64,
    wall: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let transfer = two_paths(options.seed, options.bytes);
    let mut measured: Option<Measured> = None;
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        let (cpu, begin) = (Cost::so_far()?.cpu, Instant::now());
        let outcome = transfer.run(false)?;
        rounds.push(Round { cpu: Cost::so_far()?.cpu - cpu, wall: begin.elapsed().as_secs_f64() });
        check(&outcome, measured.as_ref())?;
        measured = Some(outcome);
    }
    let outcome = measured.ok_or("nothing was run")?;
    Ok(report(options, &outcome, &rounds, Cost::so_far()?.rss))
}

/// Fails if a run did not open all paths, or differs from the previous run.
fn check(outcome: &Measured, before: Option<&Measured>) -> Result<(), Error> {
    if outcome.opened.len() + 1 != LINKS.len() {
        return Err(format!("only {} of {} paths were opened", outcome.opened.len() + 1, LINKS.len()).into());
    }
    match before {
        Some(before) if before.trace != outcome.trace => Err("two runs of the same seed differ".into()),
        _ => Ok(()),
    }
}

fn report(options: &Options, outcome: &Measured, rounds: &[Round], rss: f64) -> Report {
    let scale = BYTES / options.bytes as f64;
    let middle = |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>()) * scale;
    let (cpu, wall, rss) = (middle(|round| round.cpu), middle(|round| round.wall), rss / 1e6);
    Report {
        title: format!(
            "{} bytes over {} paths, {:.3} s of virtual time; medians of {} runs, for each 50 MB (trace {:016x})",
            options.bytes,
            LINKS.len(),
            outcome.finished.as_secs_f64(),
            rounds.len(),
            outcome.trace
        ),
        columns: vec!["CPU s", "wall s", "RSS MB"],
        rows: vec![vec![format!("{cpu:.4}"), format!("{wall:.4}"), format!("{rss:.1}")]],
        json: json!({ "cpu_s_per_50mb": rounded(cpu), "wall_s": rounded(wall), "rss_mb": rounded(rss) }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_small_transfer_is_measured() {
        let report = run(&Options { rounds: 2, bytes: 200_000, seed: 1 }).unwrap();
        let keys: BTreeSet<&str> = report.json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["cpu_s_per_50mb", "rss_mb", "wall_s"]));
        for value in report.json.as_object().unwrap().values() {
            assert!(value.as_f64().unwrap() > 0.0, "{}", report.json);
        }
    }
}
