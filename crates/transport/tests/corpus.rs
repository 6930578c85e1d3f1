//! Replay of the fuzz corpora with a stable compiler, as a regression test of all findings.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/connection.rs"]
mod connection;
#[path = "harness/tokens.rs"]
mod tokens;

#[test]
fn connection() {
    replay("connection", connection::run);
}

#[test]
fn tokens() {
    replay("tokens", tokens::run);
}
