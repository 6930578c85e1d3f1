//! Replays the fuzz corpora with a stable compiler, so that bugs found by fuzzing stay fixed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/capsules.rs"]
mod capsules;
#[path = "harness/drift.rs"]
mod drift;
#[path = "harness/http3.rs"]
mod http3;
#[path = "session/pair.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod pair;
#[path = "harness/qpack.rs"]
mod qpack;
#[path = "harness/qpack_pair.rs"]
mod qpack_pair;
#[path = "harness/session.rs"]
mod session;
#[path = "harness/settings.rs"]
mod settings;

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

#[test]
fn capsules() {
    replay("capsules", capsules::run);
}

#[test]
fn drift() {
    replay("http3_drift", drift::run);
}

#[test]
fn qpack_pair() {
    replay("qpack_pair", qpack_pair::run);
}

#[test]
fn settings() {
    replay("settings", settings::run);
}
