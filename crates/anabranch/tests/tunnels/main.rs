//! The client of a proxy over the loopback interface, against a small proxy made of HTTP/3 requests.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod connections;
mod fallback;
mod flows;
mod over_tcp;
mod streams;
mod support;
