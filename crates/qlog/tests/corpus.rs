//! Replays the fuzz corpus with a stable compiler, so that bugs found by fuzzing stay fixed.
#![cfg(feature = "http3")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/traces.rs"]
mod traces;

#[test]
fn traces() {
    replay("qlog", traces::run);
}
