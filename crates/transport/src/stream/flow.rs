//! Flow control over all streams.

use crate::flow::{ReceiveCredit, SendCredit};

/// Bytes of all streams, and the credit for them (RFC 9000 §4.1).
#[derive(Debug)]
pub(super) struct Flow {
    /// Credit that this end has given the peer for all streams.
    pub(super) receive_credit: ReceiveCredit,
    /// Credit that the peer has given this end for all streams. It is used up when the application writes.
    pub(super) send_credit: SendCredit,
    /// Bytes sent for the first time on all streams, as RFC 9000 §4.1 counts them.
    pub(super) sent: u64,
    /// Bytes written and not yet acknowledged.
    pub(super) buffered: u64,
    pub(super) max_buffered: u64,
    /// Acknowledged stream bytes, in each stream up to the first unacknowledged one.
    pub(super) delivered: u64,
    /// Bytes that wait to be sent, new and lost.
    pub(super) pending: u64,
}
