//! Random operations on connections with several paths, in virtual time. A failing model prints its seed.
//! `ANABRANCH_SEED=… cargo test -p anabranch-lab --test model` repeats it; `ANABRANCH_SEEDS=…` sets the
//! number of models.
#![expect(clippy::panic, reason = "a test fails where it fails")]

use anabranch_lab::model::{Model, Report};
use anabranch_lab::seeds::sweep;
use anabranch_transport::Numbering;

/// Default number of models with a number space for each path.
const SEEDS: u64 = 300;
/// Default number of models with a single number space.
const SINGLE_SEEDS: u64 = 150;
/// Further seeds that once found a fault with a single number space.
const FOUND: [u64; 15] = [
    317, 392, 430, 1012, 2390, 5825, 7500, 8991, 54285, 58270, 10_000_284, 10_017_480, 10_018_113,
    10_038_249, 10_054_532,
];
/// Further seeds that once found a fault with a number space for each path.
const FOUND_MULTIPLE: [u64; 6] = [10_015_875, 10_018_260, 10_018_642, 10_030_671, 10_032_921, 10_050_329];

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// Runs the models of `seeds` on all cores and returns their reports.
fn run(numbering: Numbering, seeds: &[u64]) -> Vec<Report> {
    sweep(seeds.iter().copied(), |seed| Model::random(seed, numbering).run(), |_| ())
}

/// Runs the seeds from the environment, or else `seeds`. Fails if any of them fails.
fn run_all(numbering: Numbering, seeds: impl Iterator<Item = u64>) -> Vec<Report> {
    let seeds: Vec<u64> = match (number("ANABRANCH_SEED"), number("ANABRANCH_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (0..count).collect(),
        (None, None) => seeds.collect(),
    };
    let reports = run(numbering, &seeds);
    assert_eq!(reports.len(), seeds.len());
    for report in reports.iter().filter(|report| !report.faults.is_empty()) {
        eprintln!("ANABRANCH_SEED={} fails, {numbering:?}:\n  {}", report.seed, report.faults.join("\n  "));
    }
    assert!(reports.iter().all(|report| report.faults.is_empty()));
    reports
}

#[test]
fn whatever_happens_to_paths_every_byte_arrives_and_all_comes_to_rest() {
    let reports = run_all(Numbering::Multiple, (0..SEEDS).chain(FOUND_MULTIPLE));
    if reports.len() >= 100 {
        // The models are useful only if they reach these situations.
        let total = |value: fn(&Report) -> u64| reports.iter().map(value).sum::<u64>();
        let count = reports.len() as u64;
        assert!(total(|report| report.received) > 100_000 * count);
        assert!(total(|report| report.opened) > 2 * count, "paths opened");
        assert!(total(|report| report.gone) > count, "paths given up");
        assert!(total(|report| report.moves) > count / 2, "migrations and rebindings");
        assert!(total(|report| report.key_updates) > count / 2, "key updates");
        assert!(total(|report| report.without_paths.into()) < count / 20, "connections without paths");
    }
}

#[test]
fn whatever_happens_to_paths_with_one_number_space_all_comes_to_rest() {
    let reports = run_all(Numbering::Single, (0..SINGLE_SEEDS).chain(FOUND));
    if reports.len() as u64 > SINGLE_SEEDS {
        let total = |value: fn(&Report) -> u64| reports.iter().map(value).sum::<u64>();
        assert!(total(|report| report.opened) > 2 * SINGLE_SEEDS, "paths opened");
        assert!(total(|report| report.gone) > SINGLE_SEEDS, "paths given up");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let traces = |reports: Vec<Report>| reports.iter().map(|report| report.trace).collect::<Vec<_>>();
    let seeds: Vec<u64> = (0..20).collect();
    let first = traces(run(Numbering::Multiple, &seeds));
    assert_eq!(first, traces(run(Numbering::Multiple, &seeds)));
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
}
