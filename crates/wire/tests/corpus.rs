//! Replays the fuzz corpora with a stable compiler: what fuzzing found once stays found.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

#[path = "harness/directions.rs"]
mod directions;
#[path = "harness/frames.rs"]
mod frames;
#[path = "harness/headers.rs"]
mod headers;
#[path = "harness/parameters.rs"]
mod parameters;

/// Runs every file of one corpus; an empty or absent corpus fails.
fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        run(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", corpus.display());
}

#[test]
fn headers() {
    replay("headers", headers::run);
}

#[test]
fn frames() {
    replay("frames", frames::run);
}

#[test]
fn directions() {
    replay("directions", directions::run);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(20_000))]

    #[test]
    fn directions_of_anything(data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        directions::run(&data);
    }
}

#[test]
fn parameters() {
    replay("parameters", parameters::run);
}
