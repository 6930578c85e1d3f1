//! Plans of exchanges: what a client does on its connections and streams.

use anabranch_wire::Dir;

use super::Request;

/// One stream of the client.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Unidirectional streams have no download.
    pub dir: Dir,
    /// Request that the server receives.
    pub request: Request,
    /// Reset the stream in place of finishing it, after this many bytes of request and upload.
    pub reset: Option<u64>,
    /// Stop the download after this many bytes.
    pub stop: Option<u64>,
}

/// One connection; the next one begins when it is closed.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlan {
    /// Its streams, opened in this order as soon as the server allows.
    pub streams: Vec<StreamPlan>,
    /// DATAGRAM messages to send, of these lengths; the server sends each back.
    pub datagrams: Vec<usize>,
    /// Ask for a key update whenever this many streams are done; 0 for never.
    pub key_update_every: usize,
}
