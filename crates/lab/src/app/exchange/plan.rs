//! Plans of exchanges: the client's actions on its connections and streams.

use anabranch_wire::Dir;

use super::Request;

/// Plan of one stream of the client.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Type of the stream. A unidirectional stream has no download.
    pub dir: Dir,
    /// Request that the client sends.
    pub request: Request,
    /// Number of bytes, including the request, after which the client resets the stream instead of finishing
    /// it.
    pub reset: Option<u64>,
    /// Number of bytes after which the client stops the download.
    pub stop: Option<u64>,
}

/// Plan of one connection. The next connection begins when this one is closed.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlan {
    /// Streams, opened in this order as soon as the server's limits allow.
    pub streams: Vec<StreamPlan>,
    /// Lengths of the DATAGRAM messages to send. The server echoes each message.
    pub datagrams: Vec<usize>,
    /// Number of completed streams between two key updates; 0 for no updates.
    pub key_update_every: usize,
}
