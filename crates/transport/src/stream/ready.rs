//! Order in which streams with data to send are served.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

use anabranch_wire::StreamId;

use super::types::Priority;

/// Period of the packets reserved against starvation. Of this many consecutive packets that would all begin
/// with the same non-incremental stream, the last one begins with a stream behind it (RFC 9218 §10).
const SPARE_EVERY: u32 = 8;

/// A stream's place in the queue. The smallest is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    level: Reverse<i32>,
    incremental: bool,
    /// Turn of an incremental stream; 0 for other streams.
    turn: u64,
    id: StreamId,
}

impl Rank {
    /// Creates the place of a stream whose turn is `turn`.
    pub(crate) fn new(id: StreamId, priority: Priority, turn: u64) -> Self {
        let turn = if priority.incremental { turn } else { 0 };
        Self { level: Reverse(priority.level), incremental: priority.incremental, turn, id }
    }

    /// Returns the stream in this place.
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }
}

/// Streams with data that they are allowed to send.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    places: BTreeSet<Rank>,
    turn: u64,
    /// Number of packets since the last reserved one that began with a non-incremental stream while other
    /// streams of its level waited.
    in_a_row: u32,
    /// Place of the stream that the last reserved packet began with.
    spared: Option<Rank>,
}

impl ReadyQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the first place, or the one after `passed`.
    pub(crate) fn next(&self, passed: Option<Rank>) -> Option<Rank> {
        match passed {
            None => self.places.first().copied(),
            Some(passed) => self.places.range((Bound::Excluded(passed), Bound::Unbounded)).next().copied(),
        }
    }

    /// Returns the stream in the queue if it is the only one.
    pub(crate) fn only(&self) -> Option<StreamId> {
        self.places.first().filter(|_| self.places.len() == 1).map(Rank::id)
    }

    /// Returns the stream that a new packet must begin with, if the packet is reserved for the streams behind
    /// a non-incremental one of their level; otherwise `None`.
    pub(crate) fn spare(&mut self) -> Option<Rank> {
        let first = self.places.first().copied().filter(|first| !first.incremental)?;
        let waits = |place: &Rank| place.level == first.level && *place != first;
        let second = self.next(Some(first)).filter(waits)?;
        self.in_a_row += 1;
        if self.in_a_row < SPARE_EVERY {
            return None;
        }
        self.in_a_row = 0;
        let after_last = self.spared.and_then(|last| self.next(Some(last))).filter(waits);
        self.spared = Some(after_last.unwrap_or(second));
        self.spared
    }

    /// Queues a stream. An incremental stream is queued behind all others of its level.
    pub(crate) fn insert(&mut self, id: StreamId, priority: Priority) -> Rank {
        self.turn += 1;
        let place = Rank::new(id, priority, self.turn);
        self.places.insert(place);
        place
    }

    pub(crate) fn remove(&mut self, place: &Rank) {
        self.places.remove(place);
    }

    /// Moves an incremental stream behind the others of its level after it was served. Returns its new place.
    pub(crate) fn rotate(&mut self, place: Rank) -> Rank {
        if !place.incremental || self.places.len() == 1 {
            return place;
        }
        self.places.remove(&place);
        self.insert(place.id, Priority { level: place.level.0, incremental: true })
    }
}
