//! Tests of the proxy service with clients and targets on the loopback interface.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod copies;
mod order;
mod refusals;
mod support;
mod tcp;
mod udp;
