//! HTTP/3, by quiche's own module for it.

// Said in full for the programs that share these files.
#[path = "http3/client.rs"]
pub mod client;
#[path = "http3/server.rs"]
pub mod server;
