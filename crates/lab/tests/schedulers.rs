//! Schedulers in the workloads of `examples/plans/schedulers`. Each one shows the effect that it was designed
//! for, and no two behave alike.
#![cfg(feature = "experiments")]
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anabranch_lab::experiment::{Experiment, Job, Workload};
use anabranch_lab::record::Row;
use anabranch_lab::run::{RunOptions, run};
use anabranch_lab::stats::Sample;
use anabranch_lab::{experiment::End, plan};
use anabranch_transport::schedule::Algorithm;

/// Minimum difference between two schedulers that count as different, as a share of the smaller value.
const APART: f64 = 0.02;

/// Results of one variant at one point. `median` and `p95` are percentiles of the response delay, or of the
/// transfer time, in seconds. `blocked` is the time for which the client had received data beyond a gap and
/// waited for the next byte. `share` is the share of bytes on the first path.
#[derive(Clone, Debug, Default)]
struct Met {
    median: f64,
    p95: f64,
    blocked: f64,
    share: f64,
}

/// Results by variant and point.
type Results = BTreeMap<(String, u64), Met>;

fn read(name: &str) -> Experiment {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans/schedulers");
    plan::read(&folder.join(format!("{name}.toml"))).unwrap()
}

/// Runs a plan with the variants of this library whose names `wanted` accepts.
fn results(experiment: &Experiment, wanted: impl Fn(&str) -> bool) -> Results {
    let is_wanted = |job: &Job| {
        let variant = &experiment.variants[job.variant];
        variant.external().is_none() && wanted(&variant.name)
    };
    let jobs: Vec<Job> = experiment.jobs().filter(is_wanted).collect();
    let rows = Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let row = run(experiment, *job, &RunOptions::default()).row;
                    rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
                }
            });
        }
    });
    let mut by: BTreeMap<(String, u64), Vec<Row>> = BTreeMap::new();
    for row in rows.into_inner().unwrap() {
        assert_eq!(row.failure, "", "{} {} at point {}", experiment.name, row.variant, row.point);
        by.entry((row.variant.clone(), row.point)).or_default().push(row);
    }
    by.into_iter().map(|(key, rows)| (key, met(&rows))).collect()
}

fn met(rows: &[Row]) -> Met {
    let delays: Sample = rows.iter().flat_map(|row| row.request_delays_s.iter().copied()).collect();
    let times: Sample = rows.iter().filter_map(|row| row.transfer_time_s).collect();
    let values = if delays.n() == 0 { times } else { delays };
    let blocked: Sample = rows.iter().filter_map(|row| row.blocked_s).collect();
    let bytes = |path: usize| rows.iter().filter_map(|row| row.path_bytes.get(path)).sum::<u64>() as f64;
    Met {
        median: values.median().unwrap(),
        p95: values.quantile(0.95).unwrap(),
        blocked: blocked.mean().unwrap_or_default(),
        share: bytes(0) / (bytes(0) + bytes(1)),
    }
}

/// Returns the plan with limited windows, with a smaller download.
fn limited() -> Experiment {
    let mut experiment = read("limited-window");
    experiment.workload = Workload::Download { bytes: 4_000_000, until: End::LastByte };
    experiment
}

#[test]
fn blocking_estimation_and_earliest_completion_win_where_the_window_limits() {
    let names = ["min-rtt", "blest", "ecf", "open-min-rtt", "open-blest"];
    let results = results(&limited(), |name| names.contains(&name));
    let at = |name: &str, point| &results[&(name.to_owned(), point)];
    let lowest = at("min-rtt", 10);
    for name in ["blest", "ecf"] {
        let waits = at(name, 10);
        assert!(
            waits.median < 0.75 * lowest.median,
            "{name}: {waits:?}, lowest round trip first: {lowest:?}"
        );
        assert!(
            waits.blocked < 0.25 * lowest.blocked,
            "{name}: {waits:?}, lowest round trip first: {lowest:?}"
        );
    }
    // Without the window limit BLEST has nothing to avoid, so its results equal those of min-rtt.
    for point in [2, 4, 10] {
        let (open, blest) = (at("open-min-rtt", point), at("open-blest", point));
        assert_eq!((open.median, open.share), (blest.median, blest.share), "point {point}");
    }
}

#[test]
fn earliest_completion_wins_with_chunks_over_unequal_rates() {
    let mut experiment = read("streaming");
    let Workload::Requests { count, .. } = &mut experiment.workload else { panic!("requests") };
    *count = 8;
    let results = results(&experiment, |name| ["min-rtt", "ecf"].contains(&name));
    let delay = |name: &str, point| results[&(name.to_owned(), point)].median;
    for point in [3, 11, 42] {
        let (lowest, ecf) = (delay("min-rtt", point), delay("ecf", point));
        assert!(ecf < 0.95 * lowest, "point {point}: {ecf} s, lowest round trip first {lowest} s");
    }
    let (lowest, ecf) = (delay("min-rtt", 86), delay("ecf", 86));
    assert!((ecf / lowest - 1.0).abs() < 0.05, "two paths alike: {ecf} s and {lowest} s");
}

#[test]
fn every_two_schedulers_differ_somewhere() {
    let mut all: Vec<(String, Results)> = Vec::new();
    for name in ["bursts", "failure", "loss", "small-requests", "weights"] {
        let mut experiment = read(name);
        experiment.repetitions = experiment.repetitions.min(2);
        all.push((name.to_owned(), results(&experiment, |name| !name.starts_with("even-"))));
    }
    all.push(("limited-window".to_owned(), results(&limited(), |name| !name.starts_with("open-"))));
    let apart = |a: f64, b: f64| (a - b).abs() > APART * a.min(b);
    let mut same = Vec::new();
    for (index, one) in Algorithm::NAMES.iter().enumerate() {
        for other in &Algorithm::NAMES[index + 1..] {
            let differs = all.iter().any(|(_, results)| {
                results.iter().filter(|((name, _), _)| name == one).any(|((_, point), met)| {
                    let theirs = &results[&((*other).to_owned(), *point)];
                    apart(met.median, theirs.median) || apart(met.p95, theirs.p95)
                })
            });
            if !differs {
                same.push((*one, *other));
            }
        }
    }
    assert_eq!(same, [], "these are the same in every workload");

    // These results are equal by design, to the last bit.
    let of = |plan: &str| &all.iter().find(|(name, _)| name == plan).unwrap().1;
    for (plan, point, alike) in [
        // Without loss no data is repeated, and with open windows nothing blocks.
        ("loss", 0, ["min-rtt", "blest", "rescue"]),
        ("bursts", 10, ["min-rtt", "blest", "rescue"]),
        ("small-requests", 4, ["min-rtt", "blest", "rescue"]),
        ("small-requests", 4, ["min-rtt", "ecf", "confluence"]),
    ] {
        let met = alike.map(|name| &of(plan)[&(name.to_owned(), point)]);
        let values = met.map(|met| (met.median, met.p95, met.share));
        assert!(
            values.iter().all(|other| *other == values[0]),
            "{plan}, point {point}: {alike:?} {values:?}"
        );
    }
    // The share of bytes follows the weights.
    let share = of("weights")[&("weighted".to_owned(), 4)].share;
    assert!((0.85..0.95).contains(&share), "9 to 1 make {share}");
}
