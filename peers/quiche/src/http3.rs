//! HTTP/3, with quiche's own module.

// The paths are explicit because other programs include these files.
#[path = "http3/client.rs"]
pub mod client;
#[path = "http3/server.rs"]
pub mod server;
