//! Places in the buffer for packets that are decrypted right there.
//!
//! A packet's plaintext is its data and, behind that, its other frames. The latter land on bytes that come
//! later, some of which may be there already; so those are saved before and restored after, whether the
//! packet proves authentic or not. All other bytes of the place have never been received, and whatever is
//! left there is never shown.

use std::ops::Range;

use bytes::BytesMut;
use smallvec::SmallVec;

use super::reassembler::TooFragmented;
use super::{Chunk, GROWTH, MAX_CHUNK, MIN_CHUNK, Pool, ReceiveBuffer, SLACK};

/// Most received bytes that are saved for one packet; more are left alone, and the packet's data is copied.
pub(crate) const MAX_SAVED: usize = 256;

/// The next chunk is needed soon if there is less room than for two packets of usual size.
const SOON: u64 = 3_000;

/// Received bytes of a place.
pub(crate) type Saved = SmallVec<[u8; MAX_SAVED]>;

/// Memory that a packet is decrypted into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Offset of the first byte in the stream.
    pub(crate) offset: u64,
    len: usize,
    chunk: usize,
    /// Offset of the first byte in the chunk.
    at: usize,
    /// The next chunk covers what is from this offset on.
    next_start: u64,
    /// Bytes that the chunk's memory had.
    had: usize,
    /// There is no such chunk yet, but one [to be](Pool::future), which is put among the others once the
    /// packet is authentic.
    is_new: bool,
}

impl Slot {
    fn window(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }

    /// Tells if the packet would begin a chunk.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether data of `len` bytes at the start of the place does not reach into the next chunk.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.offset + len as u64 <= self.next_start
    }
}

impl ReceiveBuffer {
    /// Prepares the buffer for packets that are decrypted into their slots.
    pub(crate) fn expect_places(&mut self) {
        self.slack = SLACK;
    }

    /// Returns a place for `len` bytes from `offset` on; `None` if there is none without an allocation, or if
    /// too much of it has been received.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, offset: u64, len: usize, pool: &mut Pool) -> Option<Slot> {
        // Who takes bytes in any order has them copied: most chunks are gone when more arrives for them.
        if offset < self.read || offset >= self.limit || self.is_unordered() {
            return None;
        }
        if !self.is_clear_from(offset)
            && self.known_bytes(offset..offset.checked_add(len as u64)?) > MAX_SAVED as u64
        {
            return None;
        }
        match self.chunk_of(offset) {
            Ok(chunk) => {
                let next_start = self.start_of(chunk + 1);
                let Chunk { start, data, .. } = &mut self.chunks[chunk];
                let (at, had) = ((offset - *start) as usize, data.len());
                let is_there = at + len <= had || extend(data, at + len);
                is_there.then_some(Slot { offset, len, chunk, at, next_start, had, is_new: false })
            }
            Err(above) => self.make_place(above, offset, len, pool),
        }
    }

    /// Finds a place in a chunk to be for the hole around `offset`, below the chunk `above`. Nothing is added
    /// to the buffer.
    #[inline(never)]
    fn make_place(&mut self, above: usize, offset: u64, len: usize, pool: &mut Pool) -> Option<Slot> {
        pool.drop_future();
        let next_start = self.start_of(above);
        // A piece that is large enough for the packet will do: the budget may have become smaller.
        let memory = pool.take_kept(len + SLACK, self.wanted_room())?;
        let size = memory.room - SLACK;
        let mut chunk = Chunk::new(self.hole_part(above, offset, size as u64), memory);
        let at = (offset - chunk.start) as usize;
        let had = chunk.data.len();
        let is_there = at + len <= had || extend(&mut chunk.data, at + len);
        pool.future = Some(chunk);
        if !is_there {
            pool.drop_future();
            return None;
        }
        Some(Slot { offset, len, chunk: above, at, next_start, had, is_new: true })
    }

    fn start_of(&self, chunk: usize) -> u64 {
        self.chunks.get(chunk).map_or(u64::MAX, |next| next.start)
    }

    /// Returns the number of bytes of `window` that were received; counting ends above [`MAX_SAVED`].
    fn known_bytes(&self, window: Range<u64>) -> u64 {
        let mut known = 0;
        for range in self.known(window) {
            known += range.end - range.start;
            if known > MAX_SAVED as u64 {
                break;
            }
        }
        known
    }

    /// Sees to it that there is memory for the next chunk, if it is soon needed: no packet may ask for some
    /// before it is authentic.
    #[inline]
    pub(crate) fn prepare_next(&self, pool: &mut Pool) {
        let room = self.chunks.back().map_or(0, |last| last.end.saturating_sub(self.ready));
        if room < SOON {
            self.restock(pool);
        }
    }

    #[inline(never)]
    fn restock(&self, pool: &mut Pool) {
        let room = pool.allowance(self.wanted_room(), self.live(self.ready));
        if room >= MIN_CHUNK + SLACK {
            pool.restock(room);
        }
    }

    /// Returns the room for the next chunk: no more than may arrive, or than a stream begins with.
    fn wanted_room(&self) -> usize {
        let to_come = usize::try_from(self.limit.saturating_sub(self.ready)).unwrap_or(usize::MAX);
        self.next_chunk.min(to_come.max(MIN_CHUNK)) + SLACK
    }

    /// Returns the bytes of the place.
    #[inline(always)]
    pub(crate) fn window_mut<'a>(&'a mut self, slot: &Slot, pool: &'a mut Pool) -> &'a mut [u8] {
        let data = match &mut pool.future {
            Some(chunk) if slot.is_new => &mut chunk.data,
            _ => &mut self.chunks[slot.chunk].data,
        };
        &mut data[slot.at..slot.at + slot.len]
    }

    /// Copies what has been received of the place.
    #[inline]
    pub(crate) fn save(&self, slot: &Slot, saved: &mut Saved) {
        // What is in a hole has not been received.
        if !slot.is_new && !self.is_clear_from(slot.offset) {
            self.save_known(*slot, saved);
        }
    }

    fn save_known(&self, slot: Slot, saved: &mut Saved) {
        for range in self.known(slot.window()) {
            let chunk = &self.chunks[slot.chunk];
            let at = (range.start - chunk.start) as usize;
            saved.extend_from_slice(&chunk.data[at..at + (range.end - range.start) as usize]);
        }
    }

    /// Puts back what [`Self::save`] copied.
    pub(crate) fn restore(&mut self, slot: &Slot, saved: &Saved) {
        if saved.is_empty() {
            return;
        }
        let mut rest = &saved[..];
        let Chunk { start, data, .. } = &mut self.chunks[slot.chunk];
        for range in known(self.ready, &self.ahead, slot.window()) {
            let at = (range.start - *start) as usize;
            let (now, later) = rest.split_at((range.end - range.start) as usize);
            data[at..at + now.len()].copy_from_slice(now);
            rest = later;
        }
    }

    /// Makes all as it was before: the packet was not authentic.
    pub(crate) fn give_back(&mut self, slot: &Slot, pool: &mut Pool) {
        let chunk = if slot.is_new { pool.future.as_mut() } else { self.chunks.get_mut(slot.chunk) };
        if let Some(chunk) = chunk {
            chunk.data.truncate(slot.had);
        }
        pool.drop_future();
    }

    /// Commits an authentic packet: the first `len` bytes of the slot, which they [fit](Slot::fits), are
    /// data. Returns whether more can be read now.
    pub(crate) fn commit(&mut self, slot: &Slot, len: usize, pool: &mut Pool) -> Result<bool, TooFragmented> {
        if slot.is_new {
            self.add_future(slot, pool)?;
        }
        let chunk = &mut self.chunks[slot.chunk];
        let end = slot.offset + len as u64;
        if chunk.end < end {
            // The edge floats: data that crosses it stays in one piece.
            self.excess = self.excess.saturating_sub((end - chunk.end) as usize);
            chunk.end = end;
        }
        self.mark(slot.offset, len, pool)
    }

    #[inline(never)]
    fn add_future(&mut self, slot: &Slot, pool: &mut Pool) -> Result<(), TooFragmented> {
        // There is one from the reservation on.
        let chunk = pool.future.take().ok_or(TooFragmented)?;
        self.add_chunk(slot.chunk, chunk, pool);
        self.next_chunk = (self.next_chunk * GROWTH).min(MAX_CHUNK);
        Ok(())
    }

    /// Returns whether nothing at `offset` or behind it has been received.
    #[inline]
    fn is_clear_from(&self, offset: u64) -> bool {
        offset >= self.ready && self.ahead.is_empty()
    }

    fn known(&self, window: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        known(self.ready, &self.ahead, window)
    }
}

/// Makes `data` reach up to `end`, if there is room for that. Bytes that it has not had are zeroes.
#[inline(never)]
fn extend(data: &mut BytesMut, end: usize) -> bool {
    let fits = end <= data.capacity();
    if fits {
        data.resize(end, 0);
    }
    fits
}

/// Returns the received ranges of `window` in ascending order.
fn known(
    ready: u64,
    ahead: &crate::ranges::RangeSet,
    window: Range<u64>,
) -> impl Iterator<Item = Range<u64>> {
    let below = window.start..ready.min(window.end);
    Some(below).into_iter().filter(|range| !range.is_empty()).chain(ahead.within(window))
}

#[cfg(test)]
mod tests;
