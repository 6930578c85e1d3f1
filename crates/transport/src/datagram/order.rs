//! Delivery of a flow's numbered messages in the order in which they were sent.
//!
//! Several paths reorder messages, which some programs mistake for loss. A message that arrives before one with a smaller number
//! waits for that one, for a limited time and in limited memory. No message is dropped here: one that arrives after the wait is
//! delivered at once.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::{PathId, Time};
use bytes::Bytes;
use smallvec::SmallVec;

/// Overhead that is counted for each message, in bytes.
const OVERHEAD: usize = 64;
/// Number of messages with larger numbers that have to arrive on a path before a smaller number counts as lost there, as the packet
/// threshold of loss detection (RFC 9002 §6.1.1).
const THRESHOLD: usize = 3;
/// Number of paths whose messages are told apart without allocating.
const USUAL_PATHS: usize = 2;

/// Received messages of one flow, which are delivered in the order of their numbers.
///
/// A path usually carries the messages of a flow in their order, so the wait for a message that was lost ends early: when each path on which
/// messages arrived within the time of a wait has delivered three with larger numbers.
#[derive(Debug)]
pub struct Order {
    /// Maximum time for which a message waits.
    hold: Duration,
    /// Number after the largest one that was delivered.
    next: u32,
    /// Messages in ascending order of their numbers, which wrap around.
    held: VecDeque<Held>,
    /// Sum of the lengths of `held`, with [`OVERHEAD`] for each.
    bytes: usize,
    paths: SmallVec<[Arrivals; USUAL_PATHS]>,
}

/// A message that waits.
#[derive(Debug)]
struct Held {
    number: u32,
    message: Bytes,
    /// Arrival of the first of this message and those with larger numbers. It never decreases from one element to the next.
    since: Time,
}

/// Messages that arrived on one path.
#[derive(Debug)]
struct Arrivals {
    path: PathId,
    /// Largest numbers, in descending order.
    largest: [u32; THRESHOLD],
    /// Time of the last arrival.
    last: Time,
}

impl Order {
    /// Creates the state of a flow whose numbers begin at zero, and whose messages wait for at most `hold`.
    pub fn new(hold: Duration) -> Self {
        Self { hold, next: 0, held: VecDeque::new(), bytes: 0, paths: SmallVec::new() }
    }

    /// Adds a message, which arrived on `path` at `now` and is no duplicate.
    pub fn push(&mut self, now: Time, path: PathId, number: u32, message: Bytes) {
        self.note(now, path, number);
        let at = self.held.partition_point(|held| self.distance(held.number) < self.distance(number));
        let since = self.held.get(at).map_or(now, |later| later.since.min(now));
        self.bytes += message.len() + OVERHEAD;
        self.held.insert(at, Held { number, message, since });
    }

    /// Removes and returns the next message to deliver; `None` if all wait. While more than `max_bytes` are held, none waits.
    pub fn pop(&mut self, now: Time, max_bytes: usize) -> Option<Bytes> {
        let front = self.held.front()?;
        let is_due = self.distance(front.number) <= 0
            || self.bytes > max_bytes
            || now >= front.since + self.hold
            || self.is_preceded_by_losses(now, front.number);
        if is_due { self.take() } else { None }
    }

    /// Returns the latest time at which the wait of the next message ends; `None` if no message waits.
    pub fn due(&self) -> Option<Time> {
        self.held.front().map(|front| front.since + self.hold)
    }

    /// Returns the size of the messages that wait, with an overhead for each, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the distance of a number from the next one to deliver. It is negative for one that arrived after the wait for it.
    fn distance(&self, number: u32) -> i32 {
        number.wrapping_sub(self.next).cast_signed()
    }

    /// Returns whether all missing messages before `number` count as lost: each path has delivered enough later ones. A path on which
    /// nothing arrived for the time of a wait carries none of them. A sender that lets an earlier message follow later ones on
    /// one path, as it does when the other path falls silent, has that message delivered late.
    fn is_preceded_by_losses(&self, now: Time, number: u32) -> bool {
        let carries = |arrivals: &&Arrivals| now < arrivals.last + self.hold;
        let is_past =
            |arrivals: &Arrivals| arrivals.largest.last().is_some_and(|largest| !is_before(*largest, number));
        self.paths.iter().filter(carries).all(is_past)
    }

    /// Records that a message arrived on `path` at `now`. [`Self::push`] does so itself; a copy of a message that has arrived before is
    /// recorded by this alone, because it shows how far its path has come.
    pub fn note(&mut self, now: Time, path: PathId, number: u32) {
        let at = self.paths.iter().position(|arrivals| arrivals.path == path);
        let at = at.unwrap_or_else(|| {
            // Paths that carry nothing any more make room.
            self.paths.retain(|arrivals| now < arrivals.last + self.hold);
            self.paths.push(Arrivals { path, largest: [self.next.wrapping_sub(1); THRESHOLD], last: now });
            self.paths.len() - 1
        });
        let Some(arrivals) = self.paths.get_mut(at) else { return };
        arrivals.last = now;
        if let Some(at) = arrivals.largest.iter().position(|largest| is_before(*largest, number)) {
            arrivals.largest[at..].rotate_right(1);
            arrivals.largest[at] = number;
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let Held { number, message, .. } = self.held.pop_front()?;
        if self.distance(number) >= 0 {
            self.next = number.wrapping_add(1);
        }
        self.bytes -= message.len() + OVERHEAD;
        Some(message)
    }
}

/// Returns whether number `a` precedes `b`. Numbers wrap around.
fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

#[cfg(test)]
mod tests;
