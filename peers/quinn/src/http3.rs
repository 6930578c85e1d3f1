//! HTTP/3, by the crates h3 and h3-quinn.

pub mod client;
pub mod server;
