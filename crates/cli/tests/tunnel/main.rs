//! Tests of tunnels end to end, with processes on the loopback interface: the proxy, its client, programs and
//! targets.
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod certificates;
mod failures;
mod fallback;
mod links;
mod process;
mod programs;
mod reload;
mod socks;
mod state;
mod targets;
mod terminal;
