//! Delivery of a UDP flow's numbered payloads in the order in which they were sent.
//!
//! Several paths reorder datagrams, which some programs mistake for loss. A payload that arrives before one with a smaller number waits
//! for that one, for a limited time and in limited memory. No payload is dropped here: one that arrives after the wait is delivered at
//! once.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::lock::lock;

/// Maximum number of bytes of one flow's payloads that wait.
const MAX_HELD: usize = 1024 * 1024;
/// Maximum number of bytes of all flows' payloads that wait.
const MAX_HELD_IN_ALL: usize = 64 * 1024 * 1024;
/// Overhead that is counted for each payload, in bytes.
const OVERHEAD: usize = 64;

/// Bytes of the payloads that wait in all flows of the process, with [`OVERHEAD`] for each.
static HELD_IN_ALL: AtomicUsize = AtomicUsize::new(0);

/// Received payloads of one direction of a flow, which are delivered in order.
#[derive(Debug)]
pub(super) struct Order {
    /// Maximum time for which a payload waits.
    hold: Duration,
    waiting: Mutex<Waiting>,
}

/// Payloads that wait.
#[derive(Debug, Default)]
struct Waiting {
    /// Number after the largest one that was delivered.
    next: u32,
    /// Payloads in ascending order of their numbers, which wrap around.
    held: VecDeque<Held>,
    /// Sum of the lengths of `held`, with [`OVERHEAD`] for each.
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    number: u32,
    payload: Bytes,
    /// Arrival of the first of this payload and those with larger numbers. It never decreases from one element to the next.
    since: Instant,
}

impl Order {
    /// Creates the state of a direction whose numbers begin at zero.
    pub(super) fn new(hold: Duration) -> Self {
        Self { hold, waiting: Mutex::default() }
    }

    /// Adds a payload, which was received at `now` and is no duplicate.
    pub(super) fn push(&self, number: u32, payload: Bytes, now: Instant) {
        lock(&self.waiting).insert(number, payload, now);
    }

    /// Returns the next payload to deliver; `None` if all wait.
    pub(super) fn pop(&self, now: Instant) -> Option<Bytes> {
        let mut waiting = lock(&self.waiting);
        let front = waiting.held.front()?;
        let is_due = waiting.is_next(front.number)
            || waiting.bytes > MAX_HELD
            || HELD_IN_ALL.load(Ordering::Relaxed) > MAX_HELD_IN_ALL
            || now >= front.since + self.hold;
        if is_due { waiting.take() } else { None }
    }

    /// Returns the time at which the wait of the next payload ends; `None` if no payload waits.
    pub(super) fn due(&self) -> Option<Instant> {
        let waiting = lock(&self.waiting);
        waiting.held.front().map(|front| front.since + self.hold)
    }
}

impl Waiting {
    /// Returns whether no payload with a smaller number can precede this one. A number before `next` arrived after the wait for it.
    fn is_next(&self, number: u32) -> bool {
        number.wrapping_sub(self.next).cast_signed() <= 0
    }

    fn insert(&mut self, number: u32, payload: Bytes, now: Instant) {
        let distance = |number: u32| number.wrapping_sub(self.next).cast_signed();
        let at = self.held.partition_point(|held| distance(held.number) < distance(number));
        let since = self.held.get(at).map_or(now, |later| later.since.min(now));
        self.count(payload.len() + OVERHEAD, true);
        self.held.insert(at, Held { number, payload, since });
    }

    fn take(&mut self) -> Option<Bytes> {
        let Held { number, payload, .. } = self.held.pop_front()?;
        let after = number.wrapping_add(1);
        if after.wrapping_sub(self.next).cast_signed() > 0 {
            self.next = after;
        }
        self.count(payload.len() + OVERHEAD, false);
        Some(payload)
    }

    fn count(&mut self, bytes: usize, more: bool) {
        if more {
            self.bytes += bytes;
            HELD_IN_ALL.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.bytes -= bytes;
            HELD_IN_ALL.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        HELD_IN_ALL.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
