//! Values that a connection keeps from its first flight.

use anabranch_wire::{ConnectionId, Time, Version};

/// Values of a connection's first flight. Only Version Negotiation changes one of them: the version.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Version of the client's first Initial, or of its first Initial after a Version Negotiation.
    pub(crate) version: Version,
    /// Connection ID from which a server derives its Initial keys; empty at a client.
    pub(crate) initial_dcid: ConnectionId,
    /// Time at which the connection started.
    pub(crate) time: Time,
    /// Source Connection ID of this endpoint's long headers.
    pub(crate) local_cid: ConnectionId,
    /// Values of the greased fixed bit, by packet number modulo 64 (RFC 9287).
    pub(crate) grease_bits: u64,
}
