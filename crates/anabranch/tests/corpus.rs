//! Replays the fuzz corpus with a stable compiler, so that bugs found by fuzzing stay fixed.
#![cfg(feature = "proxy")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/ip_packets.rs"]
mod ip_packets;

#[test]
fn ip_packets() {
    replay("ip_packets", ip_packets::run);
}
