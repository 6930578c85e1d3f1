//! HTTP/3, with the crates h3 and h3-quinn.

pub mod client;
pub mod server;
