//! HTTP/3 over the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod connect;
mod early_data;
mod hostile;
mod lent;
mod limits;
mod requests;
mod shutdown;
mod streaming;
mod support;
mod together;
