//! The proxy service, as clients and targets see it.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod copies;
mod order;
mod refusals;
mod support;
mod tcp;
mod udp;
