//! Replays the fuzz corpora with a stable compiler, so that bugs found by fuzzing stay fixed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/acks.rs"]
mod acks;
#[path = "harness/directions.rs"]
mod directions;
#[path = "harness/frames.rs"]
mod frames;
#[path = "harness/frames_built.rs"]
mod frames_built;
#[path = "harness/headers.rs"]
mod headers;
#[path = "harness/negotiation.rs"]
mod negotiation;
#[path = "harness/packets.rs"]
mod packets;
#[path = "harness/parameters.rs"]
mod parameters;
#[path = "harness/parameters_built.rs"]
mod parameters_built;
#[path = "harness/varints.rs"]
mod varints;

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

#[test]
fn acks() {
    replay("acks", acks::run);
}

#[test]
fn frames_built() {
    replay("frames_built", frames_built::run);
}

#[test]
fn negotiation() {
    replay("negotiation", negotiation::run);
}

#[test]
fn packets() {
    replay("packets", packets::run);
}

#[test]
fn parameters_built() {
    replay("parameters_built", parameters_built::run);
}

#[test]
fn varints() {
    replay("varints", varints::run);
}
