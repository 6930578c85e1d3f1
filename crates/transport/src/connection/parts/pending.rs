//! Pending frames that belong to no stream, path or handshake level.

use super::AckRequest;

/// Pending frames that belong to no stream, path or handshake level.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) handshake_done: bool,
    /// Number of NEW_TOKEN frames still to be sent to the client.
    pub(crate) new_tokens: u64,
    /// Number of NEW_TOKEN frames received from the server.
    pub(crate) new_tokens_received: u64,
    /// `true` if the peer retired connection IDs, so that new ones may be due.
    pub(crate) issue_cids: bool,
    /// ACK_FREQUENCY request to be sent.
    pub(crate) ack_frequency: Option<AckRequest>,
    pub(crate) ack_frequency_sequence: u64,
    /// Latest ACK_FREQUENCY request of this end, sent or still to be sent.
    pub(crate) ack_requested: Option<AckRequest>,
    /// `true` if the latest request was acknowledged.
    pub(crate) ack_request_acked: bool,
    /// Sequence number of the newest ACK_FREQUENCY frame received.
    pub(crate) ack_frequency_received: Option<u64>,
}
