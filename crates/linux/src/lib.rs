//! Linux's own TCP and Multipath TCP in virtual time, as an engine of the lab.
//!
//! The kernel is User-Mode Linux, which the user builds once ([`build`]). It runs as an ordinary process in
//! virtual time, which jumps from event to event. Each run of the lab is one boot. The kernel's first process
//! ([`guest`]) is the program that runs the lab. It sets up the point's links, transfers the data, prints a
//! report and switches the machine off.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod build;
mod engine;
pub mod guest;
pub mod host;
mod order;
mod stack;
pub mod train;

pub use engine::Linux;
pub use order::{Link, Order, PathReport, Properties, Report, Unfit, Way, Work};
pub use stack::{Buffers, Control, Stack, Tls, Transport, UnknownStack};
