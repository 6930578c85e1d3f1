//! Memory of chunks that were read: what streams need next is taken from there, rather than asked for and zeroed anew.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{MIN_CHUNK, SLACK};

/// Room in all that is kept, most: about as much as a few batches of datagrams fill.
const MAX_KEPT: usize = 1024 * 1024;

/// Pieces kept, most; each search goes through them.
const MAX_PIECES: usize = 64;

/// Memory has at most so many times the room that is asked for: an application may hold a few bytes of it for long.
const MAX_EXCESS: usize = 2;

/// A chunk's memory. Its bytes may be those of data that was read; they are as good as zeroes.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) data: BytesMut,
    /// How much room it has when nobody holds a part of it.
    pub(super) room: usize,
}

impl Memory {
    fn new(room: usize) -> Self {
        Self { data: BytesMut::with_capacity(room), room }
    }

    /// Streams begin with less, and some keep that for ever: control streams.
    fn is_large(&self) -> bool {
        self.room > MIN_CHUNK + SLACK
    }

    /// Whether it can be used for `room` bytes: nobody else holds any of it.
    fn is_free(&mut self, room: usize) -> bool {
        if self.data.capacity() >= room {
            return true;
        }
        self.data.clear();
        self.data.try_reclaim(room)
    }
}

/// Memory that a connection's streams have in common.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The newest last. The application may still hold bytes in it.
    free: VecDeque<Memory>,
    /// Room in all of that.
    kept: usize,
    /// For packets that fit nothing of that.
    spare: Option<Memory>,
    /// Large pieces that are in use.
    large: usize,
}

impl Pool {
    /// Memory for `room` bytes.
    pub(super) fn take(&mut self, room: usize) -> Memory {
        let memory = self.find(room).unwrap_or_else(|| Memory::new(room));
        self.hand_out(memory)
    }

    /// Memory that is there, for `room` bytes if there is a piece like that. None is asked for.
    pub(super) fn take_kept(&mut self, room: usize) -> Option<Memory> {
        let memory = self.find(room).or_else(|| self.spare.take())?;
        Some(self.hand_out(memory))
    }

    /// Sees to it that there is memory for the next one who asks with `room` for what is there.
    #[inline(always)]
    pub(crate) fn restock(&mut self, room: usize) {
        if self.spare.is_none() {
            self.refill(room);
        }
    }

    fn refill(&mut self, room: usize) {
        self.spare = Some(self.find(room).unwrap_or_else(|| Memory::new(room)));
    }

    /// Memory that was read to its end.
    pub(super) fn give(&mut self, memory: Memory) {
        self.large = self.large.saturating_sub(usize::from(memory.is_large()));
        self.keep(memory);
    }

    /// A stream ended. If none is in the middle of much, nothing is kept: the connection may be idle for long.
    pub(crate) fn on_stream_ended(&mut self) {
        if self.large == 0 {
            let spare = self.spare.take().filter(|spare| !spare.is_large());
            *self = Self { spare, ..Self::default() };
        }
    }

    /// Memory that was taken and not used.
    pub(super) fn give_back(&mut self, memory: Memory) {
        self.large = self.large.saturating_sub(usize::from(memory.is_large()));
        match self.spare {
            None => self.spare = Some(memory),
            Some(_) => self.keep(memory),
        }
    }

    #[cfg(test)]
    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    fn hand_out(&mut self, memory: Memory) -> Memory {
        self.large += usize::from(memory.is_large());
        memory
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
        let most = room.saturating_mul(MAX_EXCESS);
        let fits = |memory: &mut Memory| (room..=most).contains(&memory.room) && memory.is_free(room);
        let at = self.free.iter_mut().rposition(fits)?;
        let memory = self.free.remove(at)?;
        self.kept -= memory.room;
        Some(memory)
    }
}

#[cfg(test)]
mod tests;
