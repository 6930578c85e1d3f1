//! The beginning of a connection.

use anabranch_wire::{ConnectionId, Time, Version};

/// Facts of a connection's first flight that never change.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Version of the client's first Initial.
    pub(crate) version: Version,
    /// Server only: what its Initial keys are made from.
    pub(crate) initial_dcid: ConnectionId,
    /// Time at which it began.
    pub(crate) time: Time,
    /// Source of this end's long headers.
    pub(crate) local_cid: ConnectionId,
    /// Values of the greased fixed bit, by packet number (RFC 9287).
    pub(crate) grease_bits: u64,
}
