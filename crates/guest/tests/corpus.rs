//! Replays the fuzz corpus with a stable compiler, so that bugs found by fuzzing stay fixed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/messages.rs"]
mod messages;

#[test]
fn messages() {
    replay("guest_messages", messages::run);
}
