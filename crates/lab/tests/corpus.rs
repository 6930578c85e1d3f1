//! Replays the fuzz corpus with a stable compiler, so that bugs found by fuzzing stay fixed.
#![cfg(feature = "experiments")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/plans.rs"]
mod plans;

#[test]
fn plans() {
    replay("plans", plans::run);
}
