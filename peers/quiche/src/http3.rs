//! HTTP/3, by quiche's own module for it.

pub mod client;
pub mod server;
