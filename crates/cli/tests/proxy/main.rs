//! Tests of `anabranch proxy serve`, `check` and `hash` as processes.
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod commands;
mod many;
mod operation;
mod site;
mod versions;
