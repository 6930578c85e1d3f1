//! Tests of a proxy's client over the loopback interface, against a small proxy that only these tests use.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod connections;
mod fallback;
mod flows;
mod malformed;
mod over_tcp;
mod streams;
mod support;
