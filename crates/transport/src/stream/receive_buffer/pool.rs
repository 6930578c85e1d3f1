//! Memory for the chunks of a connection's streams. Memory of data that was read is reused, and a budget
//! bounds all memory.
//!
//! Memory that the peer's used credit covers is not limited further. All other memory counts against the
//! budget: the first and the last chunk of each stream, because the application may have read nearly all of
//! it or the peer may have sent next to nothing; memory of a chunk beyond its stream bytes; memory kept for
//! reuse; and memory of bytes that the application holds. The smaller the rest of the budget, the smaller the
//! new chunks are, so it is never used up.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{Chunk, MIN_CHUNK, SLACK};

/// Maximum number of bytes that a connection allocates for receiving beyond the flow control window given to
/// its peer; an eighth of the window if that is more. [`MAX_STREAM_SLACK`] is added for each open stream.
pub const MAX_RECEIVE_SLACK: usize = 2 << 20;

/// Maximum number of further bytes that a connection allocates for each open stream: for its state, and for
/// chunks that are too small to shrink.
pub const MAX_STREAM_SLACK: usize = 6 * 1024;

/// Maximum number of bytes kept for reuse: a few batches of datagrams, for streams of any size.
const MAX_KEPT: usize = 512 * 1024;

/// Maximum number of memory blocks kept. Every search goes through them.
const MAX_PIECES: usize = 64;

/// Maximum ratio between the size of a reused memory block and the requested size.
const MAX_EXCESS: usize = 2;

/// Maximum number of bytes in memory blocks of which the application still holds bytes. Bytes that it takes
/// beyond that are copied.
const MAX_LENT: usize = 256 * 1024;

/// Maximum number of memory blocks of which the application still holds bytes.
const MAX_LENT_PIECES: usize = 64;

/// Number of bytes that are copied before the pool checks again whether the application has dropped the bytes
/// it held.
const LOOK_AGAIN: usize = 64 * 1024;

/// Divisor of the remaining budget that yields the maximum size of a new chunk.
const SHARE: usize = 8;

/// Divisor of a stream's unread bytes. The quotient is the maximum size of a new chunk if it exceeds the
/// maximum that [`SHARE`] yields.
const LIVE_SHARE: u64 = 32;

/// Size, in bytes, that a new chunk may always have.
const MIN_ROOM: usize = 512;

/// Bytes that a chunk costs in addition to its memory: its entry in a list whose capacity doubles.
pub(super) const CHUNK_COST: usize = 2 * size_of::<Chunk>();

/// Bytes that a range of received data costs in a tree with half-full nodes.
pub(super) const RANGE_COST: usize = 48;

/// Number of the oldest lent memory blocks that are checked before new memory is allocated: the application
/// may have dropped their bytes.
const LENT_LOOKS: usize = 4;

/// Memory of a chunk. It may contain bytes of data that was read, which are treated like zeroes.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) data: BytesMut,
    /// Size that was requested when it was allocated.
    pub(super) room: usize,
}

impl Memory {
    fn new(room: usize) -> Self {
        Self { data: BytesMut::with_capacity(room), room }
    }

    /// Returns whether nobody else holds bytes of this memory.
    fn is_whole(&mut self) -> bool {
        if self.data.capacity() < self.room {
            self.data.clear();
            return self.data.try_reclaim(self.room);
        }
        true
    }
}

/// Returns whether a chunk of size `room` is larger than the chunks of small streams. Some small streams,
/// such as control streams, keep their chunk forever.
pub(super) fn is_large(room: usize) -> bool {
    room > MAX_EXCESS * (MIN_CHUNK + SLACK)
}

/// Memory that the streams of a connection share.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Memory blocks kept for reuse, the newest last.
    free: VecDeque<Memory>,
    /// Total size of `free` in bytes.
    kept: usize,
    /// Maximum of `kept`.
    max_kept: usize,
    /// Memory blocks of which the application may still hold bytes, the oldest first.
    lent: VecDeque<Memory>,
    /// Total size of `lent` in bytes.
    lent_room: usize,
    /// Number of bytes copied since `lent` was last checked.
    copied: usize,
    /// Memory of chunks that the peer's used credit does not cover.
    pub(super) spare: usize,
    /// Number of ranges that wait for missing bytes.
    pub(super) ranges: usize,
    /// Number of streams that have had a large chunk.
    pub(super) large: usize,
    /// Maximum number of bytes allocated beyond the window.
    slack: usize,
    /// Chunk prepared for a packet that is not authenticated yet; it belongs to no stream.
    pub(super) future: Option<Chunk>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            free: VecDeque::new(),
            kept: 0,
            max_kept: MAX_KEPT,
            lent: VecDeque::new(),
            lent_room: 0,
            copied: LOOK_AGAIN,
            spare: 0,
            ranges: 0,
            large: 0,
            slack: MAX_RECEIVE_SLACK,
            future: None,
        }
    }
}

impl Pool {
    /// Creates a pool for short data that keeps no memory. All chunks are as small as the first one of a
    /// stream.
    pub(crate) fn frugal() -> Self {
        Self { max_kept: 0, slack: 2 * SHARE * MIN_CHUNK, ..Self::default() }
    }

    /// Adapts the budget to the flow control window given to the peer.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.slack = MAX_RECEIVE_SLACK.max(usize::try_from(window / 8).unwrap_or(usize::MAX));
    }

    /// Returns the maximum number of ranges that wait for missing bytes, for all streams together.
    pub(super) fn max_ranges(&self) -> usize {
        self.slack / 4 / RANGE_COST
    }

    /// Returns the rest of the budget for chunks in bytes, not counting memory that is kept for reuse.
    fn left(&self) -> usize {
        (self.slack / 2).saturating_sub(self.spare + self.lent_room)
    }

    /// Returns the size of a new chunk of a stream, at most `wanted`. `live` is the number of bytes for which
    /// the peer has used credit and which the application has not read.
    pub(super) fn allowance(&self, wanted: usize, live: u64) -> usize {
        let live = usize::try_from(live / LIVE_SHARE).unwrap_or(usize::MAX);
        wanted.min((self.left() / SHARE).max(live).max(MIN_ROOM))
    }

    /// Updates the spare memory of a stream from `before` to `after`.
    pub(super) fn account(&mut self, before: usize, after: usize) {
        self.spare = (self.spare + after).saturating_sub(before);
        self.trim();
    }

    /// Takes back the memory of the prepared chunk, if one exists.
    pub(crate) fn drop_future(&mut self) {
        if let Some(chunk) = self.future.take() {
            self.give(chunk.into_memory());
        }
    }

    /// Returns memory for `room` bytes, reused or newly allocated.
    pub(super) fn take(&mut self, room: usize) -> Memory {
        self.find(room, room.saturating_mul(MAX_EXCESS)).unwrap_or_else(|| Memory::new(room))
    }

    /// Returns kept memory for at least `least` and about `wanted` bytes; `None` if there is none. Allocates
    /// nothing.
    pub(super) fn take_kept(&mut self, least: usize, wanted: usize) -> Option<Memory> {
        self.find(least, wanted.saturating_mul(MAX_EXCESS))
    }

    /// Makes sure that [`Self::take_kept`] finds memory for `room` bytes, unless the budget forbids it.
    pub(crate) fn restock(&mut self, room: usize) {
        let most = room.saturating_mul(MAX_EXCESS);
        // Usually the memory has been prepared before.
        if self.free.back().is_some_and(|newest| (room..=most).contains(&newest.room)) {
            return;
        }
        if let Some(memory) = self.find(room, most) {
            self.keep(memory);
        } else if room <= self.left() {
            self.keep(Memory::new(room));
        }
    }

    /// Takes back memory that is no longer used.
    pub(super) fn give(&mut self, mut memory: Memory) {
        if memory.is_whole() {
            self.keep(memory);
        } else {
            self.lent_room += memory.room;
            self.lent.push_back(memory);
        }
    }

    /// Returns whether `n` bytes that the application takes must be copied, because it holds too much memory
    /// already.
    pub(super) fn must_copy(&mut self, n: usize) -> bool {
        let holds_much = |pool: &Self| pool.lent_room >= MAX_LENT || pool.lent.len() >= MAX_LENT_PIECES;
        if !holds_much(self) {
            return false;
        }
        if self.copied >= LOOK_AGAIN {
            self.look_through(usize::MAX);
            // If the application has dropped enough, the next check follows as soon as it holds too much
            // again.
            if !holds_much(self) {
                return false;
            }
            self.copied = 0;
        }
        self.copied += n;
        true
    }

    /// Takes back those of the `most` oldest lent memory blocks whose bytes the application has dropped.
    fn look_through(&mut self, most: usize) {
        for _ in 0..most.min(self.lent.len()) {
            let Some(mut memory) = self.lent.pop_front() else { return };
            if memory.is_whole() {
                self.lent_room -= memory.room;
                self.keep(memory);
            } else {
                self.lent.push_back(memory);
            }
        }
    }

    /// Records the end of the stream that received data last. If no other stream has had a large chunk, all
    /// kept memory is freed, because the connection may be idle for long.
    pub(crate) fn on_quiet(&mut self) {
        if self.large == 0 {
            self.drop_kept();
        }
    }

    /// Frees all kept memory.
    pub(crate) fn drop_kept(&mut self) {
        (self.free, self.kept, self.future) = (VecDeque::new(), 0, None);
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    #[cfg(test)]
    pub(crate) fn ranges_kept(&self) -> usize {
        self.ranges
    }

    fn keep(&mut self, memory: Memory) {
        self.kept += memory.room;
        self.free.push_back(memory);
        self.trim();
    }

    /// Frees kept memory beyond the limits, the oldest first.
    #[inline]
    fn trim(&mut self) {
        while self.kept > self.max_kept.min(self.left()) || self.free.len() > MAX_PIECES {
            let Some(oldest) = self.free.pop_front() else { break };
            self.kept -= oldest.room;
        }
    }

    /// Returns the newest memory block that fits, because it is most likely in the processor's cache.
    fn find(&mut self, least: usize, most: usize) -> Option<Memory> {
        if let Some(memory) = self.find_free(least, most) {
            return Some(memory);
        }
        if self.lent.is_empty() {
            return None;
        }
        self.look_through(LENT_LOOKS);
        self.find_free(least, most)
    }

    fn find_free(&mut self, least: usize, most: usize) -> Option<Memory> {
        let at = self.free.iter().rposition(|memory| (least..=most).contains(&memory.room))?;
        let memory = self.free.remove(at)?;
        self.kept -= memory.room;
        Some(memory)
    }
}

#[cfg(test)]
mod tests;
