//! HTTP/3, with the crate h3. The adapter to it is ours, because s2n-quic's own is not published.

#[path = "../../quinn/src/http3/client.rs"]
pub mod client;
#[path = "../../quinn/src/http3/server.rs"]
pub mod server;
mod transport;

pub use transport::{BidiStream, OpenStreams, Transport};

/// `server` field of every response.
const NAME: &str = "s2n-quic";
