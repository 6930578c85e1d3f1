//! Faults: networks that disappear, change and return while `anabranch proxy connect` runs, and processes that are killed. Each
//! test runs in namespaces of its own, without root. Where users may not create namespaces, it prints that it is skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod ends;
mod inside;
mod network;
mod scenes;
