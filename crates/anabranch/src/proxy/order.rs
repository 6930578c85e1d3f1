//! Delivery of a UDP flow's numbered payloads in the order in which they were sent, within the memory that all flows share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch_transport::datagram;
use anabranch_wire::{PathId, Time};
use bytes::Bytes;
use tokio::time::Instant;

use crate::lock::lock;
use crate::sync::Mutex;

/// Maximum number of bytes of one flow's payloads that wait.
const MAX_HELD: usize = 1024 * 1024;
/// Maximum number of bytes of all flows' payloads that wait.
const MAX_HELD_IN_ALL: usize = 64 * 1024 * 1024;

/// Bytes of the payloads that wait in all flows of the process.
static HELD_IN_ALL: AtomicUsize = AtomicUsize::new(0);

/// Path of the payloads in capsules, which the flow's stream carries.
pub(super) const STREAM: PathId = PathId(u32::MAX);

/// Received payloads of one direction of a flow, which are delivered in order.
#[derive(Debug)]
pub(super) struct Order {
    /// Time that counts as [`Time::ZERO`].
    epoch: Instant,
    waiting: Mutex<Waiting>,
}

/// Payloads that wait.
#[derive(Debug)]
struct Waiting {
    order: datagram::Order,
    /// Share of [`HELD_IN_ALL`].
    counted: usize,
}

impl Order {
    /// Creates the state of a direction whose numbers begin at zero.
    pub(super) fn new(hold: Duration) -> Self {
        let waiting = Waiting { order: datagram::Order::new(hold), counted: 0 };
        Self { epoch: Instant::now(), waiting: Mutex::new(waiting) }
    }

    /// Adds a payload, which arrived on `path` at `now` and is no duplicate.
    pub(super) fn push(&self, now: Instant, path: PathId, number: u32, payload: Bytes) {
        let mut waiting = lock(&self.waiting);
        waiting.order.push(self.time(now), path, number, payload);
        waiting.count();
    }

    /// Records that a copy of a payload which was received before arrived on `path`.
    pub(super) fn note_copy(&self, now: Instant, path: PathId, number: u32) {
        lock(&self.waiting).order.note(self.time(now), path, number);
    }

    /// Returns the next payload to deliver; `None` if all wait.
    pub(super) fn pop(&self, now: Instant) -> Option<Bytes> {
        let mut waiting = lock(&self.waiting);
        let is_full = HELD_IN_ALL.load(Ordering::Relaxed) > MAX_HELD_IN_ALL;
        let payload = waiting.order.pop(self.time(now), if is_full { 0 } else { MAX_HELD })?;
        waiting.count();
        Some(payload)
    }

    /// Returns the time at which the wait of the next payload ends; `None` if no payload waits.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = lock(&self.waiting).order.due()?;
        Some(self.epoch + (due - Time::ZERO))
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.epoch)
    }
}

impl Waiting {
    /// Corrects this flow's share of [`HELD_IN_ALL`].
    fn count(&mut self) {
        let bytes = self.order.bytes();
        if bytes > self.counted {
            HELD_IN_ALL.fetch_add(bytes - self.counted, Ordering::Relaxed);
        } else {
            HELD_IN_ALL.fetch_sub(self.counted - bytes, Ordering::Relaxed);
        }
        self.counted = bytes;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        HELD_IN_ALL.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
