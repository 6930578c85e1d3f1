//! Replays the fuzz corpora with a stable compiler: what fuzzing found once stays found.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

#[path = "harness/connection.rs"]
mod connection;
#[path = "harness/tokens.rs"]
mod tokens;

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
fn connection() {
    replay("connection", connection::run);
}

#[test]
fn tokens() {
    replay("tokens", tokens::run);
}
