//! Order in which streams with something to send go into packets.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

use anabranch_wire::StreamId;

use super::types::Priority;

/// A stream's place in the queue; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    level: Reverse<i32>,
    incremental: bool,
    /// When the stream's turn is; 0 for streams that do not take turns.
    turn: u64,
    id: StreamId,
}

impl Place {
    /// The place of a stream whose turn is `turn`.
    pub(crate) fn new(id: StreamId, priority: Priority, turn: u64) -> Self {
        let turn = if priority.incremental { turn } else { 0 };
        Self { level: Reverse(priority.level), incremental: priority.incremental, turn, id }
    }

    /// Whose place it is.
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }
}

/// Streams that have something to send that they are allowed to send.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    places: BTreeSet<Place>,
    turn: u64,
}

impl ReadyQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The first place, or the one after `passed`.
    pub(crate) fn next(&self, passed: Option<Place>) -> Option<Place> {
        match passed {
            None => self.places.first().copied(),
            Some(passed) => self.places.range((Bound::Excluded(passed), Bound::Unbounded)).next().copied(),
        }
    }

    /// Queues a stream, behind all others of its level if they take turns.
    pub(crate) fn insert(&mut self, id: StreamId, priority: Priority) -> Place {
        self.turn += 1;
        let place = Place::new(id, priority, self.turn);
        self.places.insert(place);
        place
    }

    pub(crate) fn remove(&mut self, place: &Place) {
        self.places.remove(place);
    }

    /// The stream has had its turn and wants another; gives its new place.
    pub(crate) fn rotate(&mut self, place: Place) -> Place {
        if !place.incremental || self.places.len() == 1 {
            return place;
        }
        self.places.remove(&place);
        self.insert(place.id, Priority { level: place.level.0, incremental: true })
    }
}
