//! What a server's clients may cost.

use std::time::Duration;

/// Bounds on what the clients of a [`Server`](super::Server) may hold and for how long.
///
/// What a client may send ahead of being read is bounded by the transport's windows, and how many requests it may have open
/// by [`StreamsConfig::max_bidi`](crate::transport::stream::StreamsConfig::max_bidi).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time; others are refused.
    pub max_connections: usize,
    /// Requests of one connection that are being answered at the same time; others wait.
    pub max_handlers: usize,
    /// How long a connection may be without a request before it is closed, its handshake included.
    pub idle_timeout: Duration,
    /// How long a client may take to send the head of a request, from opening its stream.
    pub header_timeout: Duration,
    /// Bytes per second that a client has to send of a request, or read of a response, while the server waits for it.
    /// Tunnels (CONNECT) are exempt, and so are requests that the server has begun to answer. 0: any speed will do.
    pub min_rate: u64,
    /// How long a client may fall short of `min_rate`.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_handlers: 128,
            idle_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(20),
            min_rate: 500,
            grace: Duration::from_secs(20),
        }
    }
}
