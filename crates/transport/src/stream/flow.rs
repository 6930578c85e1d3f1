//! Flow control over all streams.

use crate::flow::{ReceiveCredit, SendCredit};

/// Bytes of all streams, and the credit for them (RFC 9000 §4.1).
#[derive(Debug)]
pub(super) struct Flow {
    /// Credit that we give the peer over all streams.
    pub(super) receive_credit: ReceiveCredit,
    /// Credit that the peer gives us over all streams, charged by writing.
    pub(super) send_credit: SendCredit,
    /// New bytes sent over all streams, what RFC 9000 §4.1 counts.
    pub(super) sent: u64,
    /// Bytes written and not acknowledged.
    pub(super) buffered: u64,
    pub(super) max_buffered: u64,
    /// Stream bytes that the peer has acknowledged, each stream's up to the first that it has not.
    pub(super) delivered: u64,
    /// Bytes to be sent, new and lost.
    pub(super) pending: u64,
}
