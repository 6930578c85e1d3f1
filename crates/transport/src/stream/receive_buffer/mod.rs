//! Received stream bytes, put where they belong once and read in place.
//!
//! The buffer is a list of chunks whose edges float: a chunk covers the bytes from `start` to its end, chunks
//! do not overlap, and between them there may be holes that nothing has arrived for. Live bytes never move. A
//! wire format that decrypts into the buffer only needs a chunk with room at the right offset, see
//! [`placement`]; [`reassembler`] is for those that copy. Chunks' memory comes from a [`pool`] of all
//! streams, which bounds it.

mod placement;
mod pool;
mod reassembler;
mod unordered;

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

pub(crate) use self::placement::{Saved, Slot};
pub(crate) use self::pool::Pool;
use self::pool::{CHUNK_COST, Memory, RANGE_COST, is_large};
pub use self::pool::{MAX_RECEIVE_SLACK, MAX_STREAM_SLACK};
pub(crate) use self::reassembler::TooFragmented;
use self::unordered::Untaken;
use crate::ranges::RangeSet;

/// First chunk of a stream, about one packet: most streams are small.
const MIN_CHUNK: usize = 1536;

/// The next chunk of a stream is so many times as large. With less, an answer of some ten thousand bytes goes
/// through chunk after chunk.
const GROWTH: usize = 4;

/// An empty list of chunks has room for so many at most.
const KEPT_CHUNKS: usize = 8;

/// Chunks grow up to this size.
const MAX_CHUNK: usize = 64 * 1024;

/// Separate ranges that may wait for what is missing between them, unless
/// [`ReceiveBuffer::set_max_fragments`] says otherwise.
pub(crate) const MIN_FRAGMENTS: usize = 1024;

/// Room behind a chunk of a stream whose packets are decrypted there, for what is behind the data in the
/// chunk's last packet.
const SLACK: usize = 1_536;

/// Room for bytes `[start, end)` of the stream. `data` reaches at least as far as anything has arrived; what
/// it has in holes and behind is never shown.
#[derive(Debug)]
struct Chunk {
    start: u64,
    end: u64,
    data: BytesMut,
    /// Room of its memory.
    room: usize,
}

impl Chunk {
    fn new(range: Range<u64>, memory: Memory) -> Self {
        Self { start: range.start, end: range.end, data: memory.data, room: memory.room }
    }

    fn into_memory(self) -> Memory {
        Memory { data: self.data, room: self.room }
    }

    /// Counts the bytes of the stream that it covers.
    fn span(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Counts the room beside them.
    fn excess(&self) -> usize {
        self.room.saturating_sub(self.span())
    }

    /// Tells if nothing of its memory was taken, so that it can be used again at once.
    fn is_whole(&self) -> bool {
        self.data.capacity() >= self.room
    }
}

/// The bytes of one stream from the first unread one.
///
/// ```text
/// 0 ……… read ………………… ready ……… [ahead] ………
///  consumed    readable      holes and ranges
/// ```
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    chunks: VecDeque<Chunk>,
    read: u64,
    ready: u64,
    ahead: RangeSet,
    next_chunk: usize,
    /// Nothing can arrive at or beyond this offset, so no chunk reaches beyond it.
    limit: u64,
    max_fragments: usize,
    /// Room behind each chunk.
    slack: usize,
    /// Room of all chunks beside what they cover.
    excess: usize,
    /// Spare room of this buffer that the pool has counted.
    spare: usize,
    /// It has had much, and the pool knows.
    is_large: bool,
    /// Room of all chunks.
    rooms: usize,
    /// Data that the application has not taken yet, if it takes bytes in any order.
    untaken: Option<Box<Untaken>>,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            read: 0,
            ready: 0,
            ahead: RangeSet::default(),
            next_chunk: MIN_CHUNK,
            limit: u64::MAX,
            max_fragments: MIN_FRAGMENTS,
            slack: 0,
            excess: 0,
            spare: 0,
            is_large: false,
            rooms: 0,
            untaken: None,
        }
    }
}

impl ReceiveBuffer {
    /// Sets the end of the data that may arrive: flow control or the final size forbid more.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Bounds the separate ranges kept.
    pub(crate) fn set_max_fragments(&mut self, max_fragments: usize) {
        self.max_fragments = max_fragments;
    }

    /// Returns whether no received byte waits, readable or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.ready && self.ahead.is_empty()
    }

    /// Returns the end of the data received without a hole.
    #[inline]
    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }

    /// Returns the number of bytes that can be read now.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        self.untaken.as_ref().map_or(self.ready - self.read, |untaken| untaken.bytes())
    }

    /// Returns the offset of the first byte that has not been read.
    pub(crate) fn offset(&self) -> u64 {
        self.read
    }

    /// Returns the readable bytes of the first chunk; empty only if nothing is readable.
    #[inline]
    pub(crate) fn peek(&self) -> &[u8] {
        let Some(chunk) = self.chunks.front().filter(|chunk| chunk.start <= self.read) else {
            return &[];
        };
        let from = (self.read - chunk.start) as usize;
        let to = (self.ready.min(chunk.end) - chunk.start) as usize;
        &chunk.data[from..to]
    }

    /// Finds the end of what has arrived.
    pub(crate) fn highest(&self) -> u64 {
        self.ahead.max().map_or(self.ready, |last| last + 1)
    }

    /// Counts the bytes allocated for it, about.
    pub(crate) fn allocated(&self) -> usize {
        let rooms = self.chunks.iter().map(|chunk| chunk.room).sum::<usize>();
        let ranges = self.ahead.len() + self.untaken.as_ref().map_or(0, |untaken| untaken.ranges());
        rooms + self.chunks.capacity() * size_of::<Chunk>() + ranges * RANGE_COST
    }

    /// Drops `n` of the readable bytes as read; at most all of them.
    pub(crate) fn consume(&mut self, n: usize, pool: &mut Pool) {
        debug_assert!(n as u64 <= self.readable(), "consumed more than is readable");
        self.read = self.ready.min(self.read + n as u64);
        let chunks = self.chunks.len();
        while self.chunks.front().is_some_and(|chunk| chunk.end <= self.read) {
            self.drop_first(pool);
        }
        if self.is_empty() {
            self.rest(pool);
        }
        if self.chunks.len() < chunks {
            self.account(pool);
        }
    }

    /// Lets others use the memory of the chunk that is not full, since nothing waits to be read.
    fn rest(&mut self, pool: &mut Pool) {
        if self.chunks.len() == 1 && self.chunks.front().is_some_and(Chunk::is_whole) {
            self.drop_first(pool);
            // It was large enough.
            self.next_chunk = (self.next_chunk / GROWTH).max(MIN_CHUNK);
        }
    }

    fn drop_first(&mut self, pool: &mut Pool) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.excess = self.excess.saturating_sub(chunk.excess());
            self.rooms = self.rooms.saturating_sub(chunk.room);
            pool.give(chunk.into_memory());
        }
    }

    /// Takes the readable bytes of the first chunk, at most `max`. They are not copied, unless the
    /// application holds much memory of what it took before.
    pub(crate) fn take(&mut self, max: usize, pool: &mut Pool) -> Bytes {
        let n = self.peek().len().min(max);
        if n == 0 {
            return Bytes::new();
        }
        if pool.must_copy(n) {
            let taken = Bytes::copy_from_slice(&self.peek()[..n]);
            self.consume(n, pool);
            return taken;
        }
        let Some(chunk) = self.chunks.front_mut() else { return Bytes::new() };
        let before = chunk.excess();
        chunk.data.advance((self.read - chunk.start) as usize);
        self.read += n as u64;
        chunk.start = self.read;
        let taken = chunk.data.split_to(n).freeze();
        self.excess = (self.excess + chunk.excess()).saturating_sub(before);
        if chunk.start == chunk.end {
            self.drop_first(pool);
            self.account(pool);
        }
        taken
    }

    /// Drops everything; the stream's data is of no interest any longer.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.chunks.drain(..).for_each(|chunk| pool.give(chunk.into_memory()));
        pool.account(self.spare, 0);
        let untaken = self.untaken.as_ref().map_or(0, |untaken| untaken.ranges());
        pool.ranges = pool.ranges.saturating_sub(self.ahead.len() + untaken);
        pool.large = pool.large.saturating_sub(usize::from(self.is_large));
        let untaken = self.untaken.is_some().then(Box::default);
        *self = Self { read: self.ready, ready: self.ready, untaken, ..Self::default() };
    }

    /// Returns the chunk that covers `offset`, made if there is none; `len` bytes are to go there.
    ///
    /// A new chunk lies in the hole around `offset` only: it starts where the hole starts, or for data far
    /// ahead on a grid counted from there, so that neither a jump nor descending offsets make many chunks or
    /// large ones.
    fn chunk_at(&mut self, offset: u64, len: usize, pool: &mut Pool) -> &mut Chunk {
        let above = match self.chunk_of(offset) {
            Ok(at) => return &mut self.chunks[at],
            Err(above) => above,
        };
        let wanted = self.next_chunk.max(len.min(MAX_CHUNK)) + self.slack;
        let room = pool.allowance(wanted, self.live(offset + len as u64));
        // Without room to spare there is none for places of packets either.
        let slack = if room < MIN_CHUNK + self.slack { 0 } else { self.slack };
        let range = self.hole_part(above, offset, (room - slack) as u64);
        self.next_chunk = (self.next_chunk * GROWTH).min(MAX_CHUNK);
        let memory = pool.take((range.end - range.start) as usize + slack);
        self.add_chunk(above, Chunk::new(range, memory), pool);
        &mut self.chunks[above]
    }

    /// Counts what the peer has used of the credit and is not read, if data that ends at `end` has arrived.
    fn live(&self, end: u64) -> u64 {
        match &self.untaken {
            Some(untaken) => untaken.bytes(),
            None => self.highest().max(end) - self.read,
        }
    }

    /// Puts a chunk among the others.
    fn add_chunk(&mut self, at: usize, chunk: Chunk, pool: &mut Pool) {
        self.excess += chunk.excess();
        self.rooms += chunk.room;
        if !self.is_large && is_large(chunk.room) {
            self.is_large = true;
            pool.large += 1;
        }
        self.chunks.insert(at, chunk);
        self.account(pool);
    }

    /// Tells the pool how much room the peer's use of its credit does not account for: all of the first chunk
    /// and of the last, and what the others have beside their bytes.
    fn account(&mut self, pool: &mut Pool) {
        let spare = match &self.untaken {
            Some(untaken) => self.spare_unordered(untaken),
            None => self.spare_ordered(),
        };
        pool.account(self.spare, spare);
        self.spare = spare;
        if self.chunks.is_empty() && self.chunks.capacity() > KEPT_CHUNKS {
            self.chunks = VecDeque::new();
        }
    }

    fn spare_ordered(&self) -> usize {
        let first = self.chunks.front().map_or(0, Chunk::span);
        let last = if self.chunks.len() > 1 { self.chunks.back().map_or(0, Chunk::span) } else { 0 };
        first + last + self.excess + self.chunks.len() * CHUNK_COST
    }

    /// Returns the chunk that covers `offset`, or the first one above.
    #[inline(always)]
    fn chunk_of(&self, offset: u64) -> Result<usize, usize> {
        match self.chunks.back() {
            Some(last) if last.start <= offset && offset < last.end => Ok(self.chunks.len() - 1),
            _ => self.chunk_among(offset),
        }
    }

    fn chunk_among(&self, offset: u64) -> Result<usize, usize> {
        let above = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let below = above.checked_sub(1).filter(|at| offset < self.chunks[*at].end);
        below.ok_or(above)
    }

    /// Returns the part of the hole below the chunk `above` that a chunk of `size` for `offset` takes.
    fn hole_part(&self, above: usize, offset: u64, size: u64) -> Range<u64> {
        let hole_start = above.checked_sub(1).map_or(self.read, |at| self.chunks[at].end);
        let hole_end = self.chunks.get(above).map_or(self.limit, |chunk| chunk.start.min(self.limit));
        let start = offset - (offset - hole_start) % size;
        start..hole_end.min(start.saturating_add(size)).max(offset + 1)
    }
}

#[cfg(test)]
mod tests;
