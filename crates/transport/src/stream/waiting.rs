//! Streams that wait for credit or room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::StreamId;

/// Streams that wait for the connection's credit or for room in its send buffer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Streams whose data exceeds the connection's limits; only after 0-RTT was refused.
    pub(super) parked: Vec<StreamId>,
    /// Streams whose application waits for the connection's credit or the send buffer, in order of arrival.
    pub(super) queue: Vec<StreamId>,
    /// Streams that have little or nothing to send because the connection has no room for their data: their
    /// places in the order of arrival, by level.
    pub(super) hungry: BTreeMap<Reverse<i32>, BTreeSet<u64>>,
    /// Number of the last place assigned in `hungry`.
    pub(super) turns: u64,
    /// Streams in `hungry` whose application was notified of room, and the number of times that writers of
    /// other streams were notified since.
    pub(super) notified: Vec<(StreamId, u32)>,
}
