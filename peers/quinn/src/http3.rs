//! HTTP/3, with the crates h3 and h3-quinn.

pub mod client;
pub mod server;

pub use h3_quinn::{BidiStream, Connection as Transport, OpenStreams};

/// `server` field of every response.
const NAME: &str = "quinn";

/// Returns a connection as h3 uses it.
pub fn transport(connection: &quinn::Connection) -> Transport {
    Transport::new(connection.clone())
}
