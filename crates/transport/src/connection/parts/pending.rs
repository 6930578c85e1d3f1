//! Frames that are owed and belong to no stream, no path and no handshake level.

use super::AckRequest;

/// Frames that are owed and belong to no stream, no path and no handshake level.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) handshake_done: bool,
    /// NEW_TOKEN frames that the client should get.
    pub(crate) new_tokens: u64,
    /// NEW_TOKEN frames that the server has sent.
    pub(crate) new_tokens_received: u64,
    /// The peer gave up connection IDs: it may need new ones.
    pub(crate) issue_cids: bool,
    /// The ACK_FREQUENCY request that the peer should know.
    pub(crate) ack_frequency: Option<AckRequest>,
    pub(crate) ack_frequency_sequence: u64,
    /// The newest request that was made.
    pub(crate) ack_requested: Option<AckRequest>,
    /// The peer is known to follow it.
    pub(crate) ack_request_acked: bool,
    /// Sequence number of the newest ACK_FREQUENCY received.
    pub(crate) ack_frequency_received: Option<u64>,
}
