//! Places in the buffer, that is, ranges of its memory, into which packets are decrypted directly.
//!
//! A packet's plaintext consists of its stream data, followed by its other frames. The other frames are
//! written over bytes of later data, some of which may already have been received. Those bytes are saved
//! before the decryption and restored afterwards, whether or not the packet is authentic. All other bytes of
//! the place have never been received, and are never read.
//!
//! In other formats the fields of the STREAM frame precede the data, and the next data in order alone has a
//! place ([`ReceiveBuffer::next_window`]). Those fields are written over received bytes, which the caller saves
//! and restores. In all formats, this is the short way to the place of data that continues a train.

use std::ops::Range;

use bytes::BytesMut;
use smallvec::SmallVec;

use super::reassembler::TooFragmented;
use super::{Chunk, GROWTH, MAX_CHUNK, MIN_CHUNK, Pool, ReceiveBuffer, SLACK};

/// Maximum number of received bytes that are saved for one packet. If the place contains more, the packet's
/// data is copied to the buffer after decryption instead.
pub(crate) const MAX_SAVED: usize = 256;

/// Free space in bytes below which memory for the next chunk is prepared: room for two packets of usual size.
const SOON: u64 = 3_000;

/// Saved received bytes of the memory into which a packet is decrypted.
pub(crate) type Saved = SmallVec<[u8; MAX_SAVED]>;

/// Memory into which a packet is decrypted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Stream offset of the memory's first byte.
    pub(crate) offset: u64,
    len: usize,
    chunk: usize,
    /// Offset of the memory's first byte in the chunk.
    at: usize,
    /// Offset at which the next chunk begins.
    next_start: u64,
    /// Length of the chunk's data before the reservation.
    had: usize,
    /// `true` if the chunk does not exist yet, but is prepared in [`Pool::future`]. It is added to the buffer
    /// when the packet is authentic.
    is_new: bool,
}

impl Slot {
    fn window(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }

    /// Returns whether the packet would begin a new chunk.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether `len` bytes of data, beginning at the start of the place, fit before the next chunk.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.offset + len as u64 <= self.next_start
    }
}

impl ReceiveBuffer {
    /// Prepares the buffer for packets that are decrypted into it.
    pub(crate) fn expect_places(&mut self) {
        self.slack = SLACK;
    }

    /// Returns a place for `len` bytes from `offset` on; `None` if this would need an allocation, or if too
    /// many of these bytes have been received.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, offset: u64, len: usize, pool: &mut Pool) -> Option<Slot> {
        // Data for out-of-order reading is copied: most chunks are released before more data arrives for
        // them.
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

    /// Returns memory for a packet of `len` bytes, of which all but the first `lead` are the next data in
    /// order, and possibly other frames behind it. Data must not have been received beyond a gap. Returns
    /// `None` if the last chunk does not contain this memory, for example because the application has taken
    /// the bytes before it.
    #[inline(always)]
    pub(crate) fn next_window(&mut self, lead: usize, len: usize) -> Option<&mut [u8]> {
        let end = self.ready + (len - lead) as u64;
        let Chunk { start, end: chunk_end, data, .. } = self.chunks.back_mut()?;
        if !self.ahead.is_empty() || self.untaken.is_some() || end > *chunk_end {
            return None;
        }
        let from = usize::try_from(self.ready.checked_sub(*start)?).ok()?.checked_sub(lead)?;
        let is_there = from + len <= data.len() || extend(data, from + len);
        is_there.then(|| &mut data[from..from + len])
    }

    /// Marks the next `len` bytes in order as received. They must be in the window that [`Self::next_window`]
    /// returned. Returns whether more can be read now.
    #[inline(always)]
    pub(crate) fn commit_next(&mut self, len: usize, pool: &mut Pool) -> bool {
        let grew = self.advance_to(self.ready + len as u64);
        if self.slack > 0 {
            self.prepare_next(pool);
        }
        grew
    }

    /// Creates a place in a prepared chunk for the gap around `offset`, below the chunk with index `above`.
    /// The buffer itself does not change.
    #[inline(never)]
    fn make_place(&mut self, above: usize, offset: u64, len: usize, pool: &mut Pool) -> Option<Slot> {
        pool.drop_future();
        let next_start = self.start_of(above);
        // The budget may have shrunk since the memory was prepared, so any memory that is large enough for
        // the packet suffices.
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

    /// Returns the number of received bytes in `window`. Counting stops above [`MAX_SAVED`].
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

    /// Prepares memory for the next chunk if it is needed soon: an unauthenticated packet must not cause an
    /// allocation.
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

    /// Returns the size of the next chunk: no more than may still arrive, but at least that of a first chunk.
    fn wanted_room(&self) -> usize {
        let to_come = usize::try_from(self.limit.saturating_sub(self.ready)).unwrap_or(usize::MAX);
        self.next_chunk.min(to_come.max(MIN_CHUNK)) + SLACK
    }

    /// Returns the memory that `slot` designates.
    #[inline(always)]
    pub(crate) fn window_mut<'a>(&'a mut self, slot: &Slot, pool: &'a mut Pool) -> &'a mut [u8] {
        let data = match &mut pool.future {
            Some(chunk) if slot.is_new => &mut chunk.data,
            _ => &mut self.chunks[slot.chunk].data,
        };
        &mut data[slot.at..slot.at + slot.len]
    }

    /// Copies the received bytes in the memory of `slot` to `saved`.
    #[inline]
    pub(crate) fn save(&self, slot: &Slot, saved: &mut Saved) {
        // Bytes in a gap have not been received.
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

    /// Restores the bytes that [`Self::save`] copied.
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

    /// Undoes the reservation, because the packet was not authentic.
    pub(crate) fn give_back(&mut self, slot: &Slot, pool: &mut Pool) {
        let chunk = if slot.is_new { pool.future.as_mut() } else { self.chunks.get_mut(slot.chunk) };
        if let Some(chunk) = chunk {
            chunk.data.truncate(slot.had);
        }
        pool.drop_future();
    }

    /// Commits an authentic packet: the first `len` bytes of the slot are stream data. `len` must satisfy
    /// [`Slot::fits`]. Returns whether more can be read now.
    pub(crate) fn commit(&mut self, slot: &Slot, len: usize, pool: &mut Pool) -> Result<bool, TooFragmented> {
        if slot.is_new {
            self.add_future(slot, pool)?;
        }
        let chunk = &mut self.chunks[slot.chunk];
        let end = slot.offset + len as u64;
        if chunk.end < end {
            // The chunk's end moves, so that data that crosses it stays contiguous.
            self.excess = self.excess.saturating_sub((end - chunk.end) as usize);
            chunk.end = end;
        }
        self.mark(slot.offset, len, pool)
    }

    #[inline(never)]
    fn add_future(&mut self, slot: &Slot, pool: &mut Pool) -> Result<(), TooFragmented> {
        // The prepared chunk has existed since the reservation.
        let chunk = pool.future.take().ok_or(TooFragmented)?;
        self.add_chunk(slot.chunk, chunk, pool);
        self.next_chunk = (self.next_chunk * GROWTH).min(MAX_CHUNK);
        Ok(())
    }

    /// Returns whether nothing at or beyond `offset` has been received.
    #[inline]
    fn is_clear_from(&self, offset: u64) -> bool {
        offset >= self.ready && self.ahead.is_empty()
    }

    fn known(&self, window: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        known(self.ready, &self.ahead, window)
    }
}

/// Extends `data` to `end` with zeroes, if its capacity permits. Returns whether it does.
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
