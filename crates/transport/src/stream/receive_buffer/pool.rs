//! Memory of chunks that were read: what streams need next is taken from there, rather than asked for and zeroed anew.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{Chunk, MIN_CHUNK, SLACK};

/// Room in all that is kept, most: a few batches of datagrams, in streams of whatever size.
const MAX_KEPT: usize = 512 * 1024;

/// Pieces kept, most; each search goes through them.
const MAX_PIECES: usize = 64;

/// Memory has at most so many times the room that is asked for: an application may hold a few bytes of it for long.
const MAX_EXCESS: usize = 2;

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

    /// Whether it is more than what a stream begins with, which some streams keep for ever: control streams.
    fn is_large(&self) -> bool {
        self.room > MAX_EXCESS * (MIN_CHUNK + SLACK)
    }

    /// Whether it is of a size for `room` bytes and has that much that nobody else holds.
    fn fits(&mut self, room: usize) -> bool {
        if !(room..=room.saturating_mul(MAX_EXCESS)).contains(&self.room) {
            return false;
        }
        if self.data.capacity() < room {
            self.data.clear();
            return self.data.try_reclaim(room);
        }
        true
    }
}

/// Memory that a connection's streams have in common.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The newest last. The application may still hold bytes in it.
    free: VecDeque<Memory>,
    /// Room in all of that.
    kept: usize,
    /// Large pieces that are in use.
    large: usize,
    /// A chunk for a packet of which nobody knows yet whether it is authentic: no stream has it.
    pub(super) future: Option<Chunk>,
}

impl Pool {
    /// The memory of the chunk to be, if there is one, is free again.
    pub(crate) fn drop_future(&mut self) {
        if let Some(chunk) = self.future.take() {
            self.give(chunk.into_memory());
        }
    }

    /// Memory for `room` bytes.
    pub(super) fn take(&mut self, room: usize) -> Memory {
        let memory = self.find(room).unwrap_or_else(|| Memory::new(room));
        self.large += usize::from(memory.is_large());
        memory
    }

    /// The same, but only if there is some: none is asked for.
    pub(super) fn take_kept(&mut self, room: usize) -> Option<Memory> {
        let memory = self.find(room)?;
        self.large += usize::from(memory.is_large());
        Some(memory)
    }

    /// Sees to it that [`Self::take_kept`] finds something for `room` bytes.
    pub(crate) fn restock(&mut self, room: usize) {
        // Mostly it was asked for before.
        if self.free.back_mut().is_some_and(|newest| newest.fits(room)) {
            return;
        }
        let memory = self.find(room).unwrap_or_else(|| Memory::new(room));
        self.keep(memory);
    }

    /// Memory that was taken and is of no more use.
    pub(super) fn give(&mut self, memory: Memory) {
        self.large = self.large.saturating_sub(usize::from(memory.is_large()));
        self.keep(memory);
    }

    /// The stream that received last ended. If no other is in the middle of much, nothing is kept: the connection may be idle for
    /// long.
    pub(crate) fn on_quiet(&mut self) {
        if self.large == 0 {
            *self = Self::default();
        }
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    fn keep(&mut self, memory: Memory) {
        self.kept += memory.room;
        self.free.push_back(memory);
        while self.kept > MAX_KEPT || self.free.len() > MAX_PIECES {
            let Some(oldest) = self.free.pop_front() else { break };
            self.kept -= oldest.room;
        }
    }

    /// The newest piece that fits, since it is most likely in the processor's cache.
    fn find(&mut self, room: usize) -> Option<Memory> {
        let at = self.free.iter_mut().rposition(|memory| memory.fits(room))?;
        let memory = self.free.remove(at)?;
        self.kept -= memory.room;
        Some(memory)
    }
}

#[cfg(test)]
mod tests;
