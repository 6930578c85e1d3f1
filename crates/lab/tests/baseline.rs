//! Comparison of transfer times with those in the repository. If a change of the stack moves the median ratio
//! of a variant's times by more than 1 %, the test fails until the file is changed, too. Reviewers see this
//! change. `ANABRANCH_BASELINE=write cargo test -p anabranch-lab --features figures --test baseline` writes
//! the file anew.
#![cfg(feature = "experiments")]
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::path::Path;

use anabranch_lab::difference::differences;
use anabranch_lab::experiment::{ALL_VARIANTS, End, Experiment, Workload, named};
use anabranch_lab::profile::{Settings, Variant};
use anabranch_lab::record::Row;
use anabranch_lab::sweep::{SweepOptions, sweep};

const FILE: &str = "tests/baseline.csv";
/// Number of points of a design from one point that is run to the next.
const STEP: usize = 12;

/// Creates an experiment at some points of `design`. Its variants are the default stack with both numberings
/// and on one path, and the stack of the 2017 study.
fn experiment(design: &str) -> Experiment {
    let mut experiment = named(design, None).unwrap();
    let single = Settings::parse("single", "numbering = \"single\"").unwrap();
    let one_path = Settings::parse("one", "multipath = false\npaths = [0]").unwrap();
    experiment.variants = vec![
        Variant::of("default", &["default"]).unwrap(),
        Variant::with("default-single", &["default"], single).unwrap(),
        Variant::with("default-path-0", &["default"], one_path).unwrap(),
        Variant::of("mpquic", &["mpquic-2017"]).unwrap(),
    ];
    experiment.usual = ALL_VARIANTS;
    experiment.repetitions = 1;
    experiment.points = experiment.points.into_iter().step_by(STEP).take(8).collect();
    experiment.workload = Workload::Download { bytes: 2_000_000, until: End::LastByte };
    experiment
}

fn run() -> Vec<Row> {
    let dir = tempfile::tempdir().unwrap();
    let run = |design: &&str| {
        let options = SweepOptions { dir: dir.path().join(design), ..SweepOptions::default() };
        sweep(&experiment(design), &options, &()).unwrap()
    };
    ["ccr22-heterogeneous-2path", "conext17-low-bdp-losses"].iter().flat_map(run).collect()
}

/// Reads the times: a line of experiment, variant, point and seconds for each run.
fn read(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let [experiment, variant, point, time] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        Row {
            experiment: experiment.to_owned(),
            variant: variant.to_owned(),
            point: point.parse().unwrap(),
            transfer_time_s: Some(time.parse().unwrap()),
            ..Row::default()
        }
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn transfer_times_are_those_of_the_baseline() {
    let rows = run();
    assert!(rows.iter().all(|row| row.failure.is_empty()), "{:?}", rows.iter().map(|row| &row.failure).max());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var("ANABRANCH_BASELINE").is_ok_and(|wish| wish == "write") {
        let line = |row: &Row| {
            let time = row.transfer_time_s.unwrap();
            format!("{},{},{},{time:.9}\n", row.experiment, row.variant, row.point)
        };
        let lines: String = rows.iter().map(line).collect();
        std::fs::write(&file, format!("experiment,variant,point,transfer_time_s\n{lines}")).unwrap();
    }
    let found = differences(&read(&std::fs::read_to_string(&file).unwrap()), &rows);
    assert_eq!(
        found.iter().map(|one| one.ratios.len()).sum::<usize>(),
        rows.len(),
        "all runs have a baseline"
    );
    for one in found {
        let median = one.median().unwrap();
        assert!(
            (median - 1.0).abs() <= 0.01,
            "{}, {}: times are {median:.4} of before",
            one.experiment,
            one.variant
        );
    }
}
