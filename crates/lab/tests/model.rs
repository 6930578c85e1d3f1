//! Random operations on connections with several paths, in virtual time. A failing model prints its seed;
//! `ANABRANCH_SEED=… cargo test -p anabranch-lab --test model` repeats it, and `ANABRANCH_SEEDS=…` runs more of them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails where it fails")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anabranch_lab::model::{Model, Report};
use anabranch_transport::Numbering;

/// Models that run when nothing else is asked for.
const SEEDS: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// The reports of `seeds`, on all cores.
fn run(seeds: core::ops::Range<u64>) -> Vec<Report> {
    let next = AtomicU64::new(seeds.start);
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let report = std::panic::catch_unwind(|| Model::random(seed, Numbering::Multiple).run());
                    reports.lock().unwrap().push(report.unwrap_or_else(|_| Report::panicked(seed)));
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap();
    reports.sort_by_key(|report| report.seed);
    reports
}

#[test]
fn whatever_happens_to_paths_every_byte_arrives_and_all_comes_to_rest() {
    let seeds = match number("ANABRANCH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ANABRANCH_SEEDS").unwrap_or(SEEDS),
    };
    let reports = run(seeds.clone());
    assert_eq!(reports.len() as u64, seeds.end - seeds.start);
    for report in reports.iter().filter(|report| !report.faults.is_empty()) {
        eprintln!("ANABRANCH_SEED={} fails:\n  {}", report.seed, report.faults.join("\n  "));
    }
    assert!(reports.iter().all(|report| report.faults.is_empty()));
    if reports.len() >= 100 {
        // The models are worth something only if they do reach these corners.
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
fn the_same_seed_gives_the_same_trace() {
    let traces = |reports: Vec<Report>| reports.iter().map(|report| report.trace).collect::<Vec<_>>();
    let first = traces(run(0..20));
    assert_eq!(first, traces(run(0..20)));
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
}
