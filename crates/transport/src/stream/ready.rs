//! Order in which streams with something to send go into packets.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

use anabranch_wire::StreamId;

use super::types::Priority;

/// Of so many packets in a row that would all begin with a stream that does not take turns, the last one goes
/// to one of those that stand behind it (RFC 9218 §10: no response is to starve).
const SPARE_EVERY: u32 = 8;

/// A stream's place in the queue; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    level: Reverse<i32>,
    incremental: bool,
    /// Turn of the stream; 0 for streams that do not take turns.
    turn: u64,
    id: StreamId,
}

impl Rank {
    /// Creates the place of a stream whose turn is `turn`.
    pub(crate) fn new(id: StreamId, priority: Priority, turn: u64) -> Self {
        let turn = if priority.incremental { turn } else { 0 };
        Self { level: Reverse(priority.level), incremental: priority.incremental, turn, id }
    }

    /// Returns the stream that has this place.
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }
}

/// Streams that have something to send that they are allowed to send.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    places: BTreeSet<Rank>,
    turn: u64,
    /// Packets that began with a stream that does not take turns while others of its level stood behind it,
    /// since the last one that was spared for those.
    in_a_row: u32,
    /// Rank of the stream that the last spared packet went to.
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

    /// Returns the stream that a new packet begins with although others come before it. This applies if the
    /// packet is spared for streams behind one of their own level that does not take turns.
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

    /// Queues a stream, behind all others of its level if they take turns.
    pub(crate) fn insert(&mut self, id: StreamId, priority: Priority) -> Rank {
        self.turn += 1;
        let place = Rank::new(id, priority, self.turn);
        self.places.insert(place);
        place
    }

    pub(crate) fn remove(&mut self, place: &Rank) {
        self.places.remove(place);
    }

    /// Gives a new place to a stream that has had its turn and wants another; returns that place.
    pub(crate) fn rotate(&mut self, place: Rank) -> Rank {
        if !place.incremental || self.places.len() == 1 {
            return place;
        }
        self.places.remove(&place);
        self.insert(place.id, Priority { level: place.level.0, incremental: true })
    }
}
