//! Faults of the field: networks that vanish, change and come back under `anabranch proxy connect`, and ends that die. Each runs
//! in namespaces of its own, without root where users may create namespaces; it is skipped by name elsewhere.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod ends;
mod inside;
mod network;
mod scenes;
