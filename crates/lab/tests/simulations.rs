//! Real endpoints over bad networks, in virtual time. A failing scenario prints its seed. `ANABRANCH_SEED=…
//! cargo test -p anabranch-lab` repeats it; `ANABRANCH_SEEDS=…` sets the number of scenarios.
#![expect(clippy::panic, reason = "a test fails where it fails")]

use anabranch_lab::scenario::{Report, Scenario};
use anabranch_lab::seeds::sweep;

/// Default number of scenarios.
const SEEDS: u64 = 500;
/// Further seeds that once found a fault.
const FOUND: [u64; 5] = [7_700_940, 7_708_473, 10_002_296, 10_005_100, 10_064_207];

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// Runs the scenarios of `seeds` on all cores and returns their reports.
fn run(seeds: impl IntoIterator<Item = u64, IntoIter: Send>) -> Vec<Report> {
    sweep(seeds.into_iter(), |seed| Scenario::random(seed).run(), |_| ())
}

#[test]
fn random_scenarios_deliver_every_byte_and_come_to_an_end() {
    let seeds: Vec<u64> = match (number("ANABRANCH_SEED"), number("ANABRANCH_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (0..count).collect(),
        (None, None) => (0..SEEDS).chain(FOUND).collect(),
    };
    let reports = run(seeds.iter().copied());
    assert_eq!(reports.len(), seeds.len());
    for report in reports.iter().filter(|report| !report.faults.is_empty()) {
        eprintln!("ANABRANCH_SEED={} fails:\n  {}", report.seed, report.faults.join("\n  "));
    }
    assert!(reports.iter().all(|report| report.faults.is_empty()));
    if reports.len() >= 100 {
        // The scenarios are useful only if they reach these situations.
        let total = |value: fn(&Report) -> u64| reports.iter().map(value).sum::<u64>();
        assert!(total(|report| report.received) > 100_000 * reports.len() as u64);
        assert!(total(|report| report.early.into()) > reports.len() as u64 / 5, "early data");
        assert!(total(|report| report.refused.into()) > reports.len() as u64 / 50, "refused early data");
        assert!(total(|report| report.moves.into()) > reports.len() as u64 / 5, "migrations and rebindings");
        assert!(total(|report| report.unlucky.into()) <= 1 + reports.len() as u64 / 10_000, "an excuse");
        assert!(total(|report| report.echoed) > reports.len() as u64, "datagrams");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let fingerprints =
        |reports: Vec<Report>| reports.iter().map(|report| (report.trace, report.events)).collect::<Vec<_>>();
    let first = fingerprints(run(0..40));
    assert_eq!(first, fingerprints(run(0..40)));
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
}
