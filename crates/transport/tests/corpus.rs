//! Replay of the fuzz corpora with a stable compiler, as a regression test of all findings.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use anabranch_testkit::corpus::replay;

#[path = "harness/answers.rs"]
mod answers;
#[path = "harness/batches.rs"]
mod batches;
#[path = "harness/connection.rs"]
mod connection;
#[path = "harness/exchange.rs"]
mod exchange;
#[path = "harness/multipath.rs"]
mod multipath;
#[path = "harness/order.rs"]
mod order;
#[path = "harness/placement.rs"]
mod placement;
#[path = "harness/tokens.rs"]
mod tokens;
#[path = "harness/wires.rs"]
mod wires;

#[test]
fn connection() {
    replay("connection", connection::run);
}

#[test]
fn tokens() {
    replay("tokens", tokens::run);
}

#[test]
fn answers() {
    replay("answers", answers::run);
}

#[test]
fn batches() {
    replay("batches", batches::run);
}

#[test]
fn multipath() {
    replay("multipath", multipath::run);
}

#[test]
fn order() {
    replay("order", order::run);
}

#[test]
fn placement() {
    replay("placement", placement::run);
}

#[test]
fn wires() {
    replay("wires", wires::run);
}
