//! Replays the fuzz corpora with a stable compiler: what fuzzing found once stays found.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

#[path = "harness/http3.rs"]
mod http3;
#[path = "session/pair.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod pair;
#[path = "harness/qpack.rs"]
mod qpack;
#[path = "harness/session.rs"]
mod session;

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
fn http3() {
    replay("http3", http3::run);
}

#[test]
fn session() {
    replay("http3_session", session::run);
}

#[test]
fn qpack() {
    replay("qpack", qpack::run);
}
