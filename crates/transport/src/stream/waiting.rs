//! Streams that wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::StreamId;

/// Streams that wait for the connection's credit or for room in its send buffer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Streams with data that the connection's limits do not let out yet, only after a refused 0-RTT.
    pub(super) parked: Vec<StreamId>,
    /// Streams whose application waits for the connection's credit or the send buffer, those that came first
    /// in front.
    pub(super) queue: Vec<StreamId>,
    /// Streams that have little or nothing to send because the connection has no room for it: by level, the
    /// numbers by which they came.
    pub(super) hungry: BTreeMap<Reverse<i32>, BTreeSet<u64>>,
    /// The last such number.
    pub(super) turns: u64,
    /// Those of them whose application was told of room, and how often others were told since.
    pub(super) notified: Vec<(StreamId, u32)>,
}
