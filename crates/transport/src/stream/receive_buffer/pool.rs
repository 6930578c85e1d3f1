//! Memory for the chunks of a connection's streams: what was read serves what comes next, and a budget bounds
//! all of it.
//!
//! What the peer has used of its credit may have memory, whatever it is. Everything beyond that counts
//! against the budget: the first and the last chunk of each stream, of which the application may have read
//! nearly all or the peer sent next to nothing; room that a chunk has beside its bytes; memory that is kept
//! for later; and memory that the application holds bytes of. The less of the budget is left, the smaller are
//! the chunks that are made, so that it is never used up.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{Chunk, MIN_CHUNK, SLACK};

/// Bytes that a connection allocates for receiving, beyond the window that its peer was given, most; an
/// eighth of the window if that is more. [`MAX_STREAM_SLACK`] comes on top.
pub const MAX_RECEIVE_SLACK: usize = 2 << 20;

/// The same for each open stream: its state, and chunks of a size below which nothing is gained.
pub const MAX_STREAM_SLACK: usize = 6 * 1024;

/// Room in all that is kept, most: a few batches of datagrams, in streams of whatever size.
const MAX_KEPT: usize = 512 * 1024;

/// Pieces kept, most; each search goes through them.
const MAX_PIECES: usize = 64;

/// Memory has at most so many times the room that is asked for.
const MAX_EXCESS: usize = 2;

/// Room in what is read and of which the application still holds bytes. What it takes beyond that is copied.
const MAX_LENT: usize = 256 * 1024;

/// Pieces of it.
const MAX_LENT_PIECES: usize = 64;

/// So much is copied before the application is found to have dropped what it held.
const LOOK_AGAIN: usize = 64 * 1024;

/// A chunk takes at most this part of what is left of the budget.
const SHARE: usize = 8;

/// Or this part of what the peer has used of the stream's credit, if that is more.
const LIVE_SHARE: u64 = 32;

/// Or this much.
const MIN_ROOM: usize = 512;

/// Bytes that a chunk costs beside its room: its entry in a list that doubles.
pub(super) const CHUNK_COST: usize = 2 * size_of::<Chunk>();

/// Bytes that a range of received data costs in a tree of half-full nodes.
pub(super) const RANGE_COST: usize = 48;

/// Oldest pieces that are looked at, whether the application has dropped its bytes, before memory is asked
/// for.
const LENT_LOOKS: usize = 4;

/// A chunk's memory. Its bytes may be those of data that was read; they are as good as zeroes.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) data: BytesMut,
    /// Room that was asked for when it was made.
    pub(super) room: usize,
}

impl Memory {
    fn new(room: usize) -> Self {
        Self { data: BytesMut::with_capacity(room), room }
    }

    /// Finds out that nobody else holds bytes of it.
    fn is_whole(&mut self) -> bool {
        if self.data.capacity() < self.room {
            self.data.clear();
            return self.data.try_reclaim(self.room);
        }
        true
    }
}

/// Tells if memory is more than what a stream begins with, which some streams keep for ever: control streams.
pub(super) fn is_large(room: usize) -> bool {
    room > MAX_EXCESS * (MIN_CHUNK + SLACK)
}

/// Memory that a connection's streams have in common.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The newest last.
    free: VecDeque<Memory>,
    /// Room in all of that.
    kept: usize,
    /// Most of it.
    max_kept: usize,
    /// Memory of which the application may still hold bytes, the oldest first.
    lent: VecDeque<Memory>,
    /// Room in that.
    lent_room: usize,
    /// Bytes copied since it was looked through.
    copied: usize,
    /// Room in chunks that the peer's use of its credit does not account for.
    pub(super) spare: usize,
    /// Ranges that wait for what is missing between them.
    pub(super) ranges: usize,
    /// Streams that have received much.
    pub(super) large: usize,
    /// Maximum number of bytes allocated beyond the window.
    slack: usize,
    /// A chunk for a packet of which nobody knows yet whether it is authentic: no stream has it.
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
    /// Creates memory for something short that keeps none: chunks are as small as the first one of a stream.
    pub(crate) fn frugal() -> Self {
        Self { max_kept: 0, slack: 2 * SHARE * MIN_CHUNK, ..Self::default() }
    }

    /// Learns how much the peer may send ahead of what the application reads.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.slack = MAX_RECEIVE_SLACK.max(usize::try_from(window / 8).unwrap_or(usize::MAX));
    }

    /// Bounds the ranges that wait for what is missing between them, in all streams together.
    pub(super) fn max_ranges(&self) -> usize {
        self.slack / 4 / RANGE_COST
    }

    /// Computes what is left of the budget for chunks if nothing is kept.
    fn left(&self) -> usize {
        (self.slack / 2).saturating_sub(self.spare + self.lent_room)
    }

    /// Grants room for a chunk, at most `wanted`, in a stream whose peer has used `live` bytes that are not
    /// read.
    pub(super) fn allowance(&self, wanted: usize, live: u64) -> usize {
        let live = usize::try_from(live / LIVE_SHARE).unwrap_or(usize::MAX);
        wanted.min((self.left() / SHARE).max(live).max(MIN_ROOM))
    }

    /// Learns that the chunks of a stream that made up `before` of the spare room make up `after`.
    pub(super) fn account(&mut self, before: usize, after: usize) {
        self.spare = (self.spare + after).saturating_sub(before);
        self.trim();
    }

    /// Takes back the memory of the chunk to be, if there is one.
    pub(crate) fn drop_future(&mut self) {
        if let Some(chunk) = self.future.take() {
            self.give(chunk.into_memory());
        }
    }

    /// Takes memory for `room` bytes.
    pub(super) fn take(&mut self, room: usize) -> Memory {
        self.find(room, room.saturating_mul(MAX_EXCESS)).unwrap_or_else(|| Memory::new(room))
    }

    /// Gives memory for between `least` and about `wanted` bytes, but only if there is some: none is asked
    /// for.
    pub(super) fn take_kept(&mut self, least: usize, wanted: usize) -> Option<Memory> {
        self.find(least, wanted.saturating_mul(MAX_EXCESS))
    }

    /// Sees to it that [`Self::take_kept`] finds something for `room` bytes, unless that is beyond the
    /// budget.
    pub(crate) fn restock(&mut self, room: usize) {
        let most = room.saturating_mul(MAX_EXCESS);
        // Mostly it was asked for before.
        if self.free.back().is_some_and(|newest| (room..=most).contains(&newest.room)) {
            return;
        }
        if let Some(memory) = self.find(room, most) {
            self.keep(memory);
        } else if room <= self.left() {
            self.keep(Memory::new(room));
        }
    }

    /// Gives back memory that is of no more use.
    pub(super) fn give(&mut self, mut memory: Memory) {
        if memory.is_whole() {
            self.keep(memory);
        } else {
            self.lent_room += memory.room;
            self.lent.push_back(memory);
        }
    }

    /// Decides that `n` bytes that the application takes are to be copied, because it holds too much memory
    /// already.
    pub(super) fn must_copy(&mut self, n: usize) -> bool {
        let holds_much = |pool: &Self| pool.lent_room >= MAX_LENT || pool.lent.len() >= MAX_LENT_PIECES;
        if !holds_much(self) {
            return false;
        }
        if self.copied >= LOOK_AGAIN {
            self.look_through(usize::MAX);
            // Who drops in time what it takes is looked at again as soon as there is that much.
            if !holds_much(self) {
                return false;
            }
            self.copied = 0;
        }
        self.copied += n;
        true
    }

    /// Takes back what the application has dropped of the oldest `most` pieces.
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

    /// Notes the end of the stream that received last. If no other is in the middle of much, nothing is kept:
    /// the connection may be idle for long.
    pub(crate) fn on_quiet(&mut self) {
        if self.large == 0 {
            self.drop_kept();
        }
    }

    /// Keeps nothing.
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

    /// Lets go of what is kept beyond the bounds, the oldest first.
    #[inline]
    fn trim(&mut self) {
        while self.kept > self.max_kept.min(self.left()) || self.free.len() > MAX_PIECES {
            let Some(oldest) = self.free.pop_front() else { break };
            self.kept -= oldest.room;
        }
    }

    /// Returns the newest piece that fits, since it is most likely in the processor's cache.
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
