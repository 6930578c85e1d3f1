//! Receive buffer of a stream: bytes are written to their place once and read there.
//!
//! The buffer is a list of chunks. A chunk covers the bytes from `start` to `end`, which are not aligned.
//! Chunks do not overlap, and there may be gaps between them for which no data has arrived. Unread bytes
//! never move. A wire format that decrypts into the buffer only needs a chunk with room at the right offset;
//! see [`placement`]. Wire formats that copy use [`reassembler`]. A [`pool`] of all streams provides the
//! memory and bounds it.

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

/// Size of a stream's first chunk in bytes, about one packet: most streams are small.
const MIN_CHUNK: usize = 1536;

/// Factor by which the chunks of a stream grow. A smaller factor would need many chunks for a response of
/// some ten thousand bytes.
const GROWTH: usize = 4;

/// Maximum capacity of an empty list of chunks.
const KEPT_CHUNKS: usize = 8;

/// Maximum size of a chunk in bytes.
const MAX_CHUNK: usize = 64 * 1024;

/// Smallest limit, and the default one, of the number of separate ranges that wait for missing bytes.
/// [`ReceiveBuffer::set_max_fragments`] changes the limit.
pub(crate) const MIN_FRAGMENTS: usize = 1024;

/// Bytes allocated behind a chunk if packets are decrypted there: for the bytes that follow the data in the
/// chunk's last packet.
const SLACK: usize = 1_536;

/// Memory for bytes `[start, end)` of the stream. `data` extends at least to the last received byte. Its
/// bytes in gaps and behind the received data are never read.
#[derive(Debug)]
struct Chunk {
    start: u64,
    end: u64,
    data: BytesMut,
    /// Size of its memory in bytes.
    room: usize,
}

impl Chunk {
    fn new(range: Range<u64>, memory: Memory) -> Self {
        Self { start: range.start, end: range.end, data: memory.data, room: memory.room }
    }

    fn into_memory(self) -> Memory {
        Memory { data: self.data, room: self.room }
    }

    /// Returns the number of stream bytes that the chunk covers.
    fn span(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the number of bytes of memory beyond the stream bytes that the chunk covers.
    fn excess(&self) -> usize {
        self.room.saturating_sub(self.span())
    }

    /// Returns whether none of its memory was taken, so that it can be reused at once.
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
    /// Offset beyond which flow control or the final size forbids data. No chunk extends beyond it.
    limit: u64,
    max_fragments: usize,
    /// Bytes allocated behind each chunk.
    slack: usize,
    /// Bytes of memory in all chunks beyond the stream bytes that they cover.
    excess: usize,
    /// Bytes of this buffer's memory that the peer's used credit does not cover, as reported to the pool.
    spare: usize,
    /// `true` if the stream has had a large chunk, which the pool has counted.
    is_large: bool,
    /// Bytes of memory in all chunks.
    rooms: usize,
    /// Data that the application has not taken yet, if it takes bytes out of order.
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
    /// Sets the offset beyond which no data may arrive, because of flow control or the final size.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Sets the maximum number of separate ranges.
    pub(crate) fn set_max_fragments(&mut self, max_fragments: usize) {
        self.max_fragments = max_fragments;
    }

    /// Returns whether the buffer has no unread bytes, neither readable ones nor ones behind a gap.
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.ready && self.ahead.is_empty()
    }

    /// Returns the end of the data received without a gap.
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

    /// Returns the end of the received data.
    pub(crate) fn highest(&self) -> u64 {
        self.ahead.max().map_or(self.ready, |last| last + 1)
    }

    /// Returns the approximate number of bytes allocated for the buffer.
    pub(crate) fn allocated(&self) -> usize {
        let rooms = self.chunks.iter().map(|chunk| chunk.room).sum::<usize>();
        let ranges = self.ahead.len() + self.untaken.as_ref().map_or(0, |untaken| untaken.ranges());
        rooms + self.chunks.capacity() * size_of::<Chunk>() + ranges * RANGE_COST
    }

    /// Marks the next `n` readable bytes as read, at most all of them.
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

    /// Returns the memory of a partly filled chunk to the pool, because nothing waits to be read.
    fn rest(&mut self, pool: &mut Pool) {
        if self.chunks.len() == 1 && self.chunks.front().is_some_and(Chunk::is_whole) {
            self.drop_first(pool);
            // The chunk was large enough, so the next one need not be larger.
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

    /// Takes up to `max` readable bytes of the first chunk. They are not copied, unless the application
    /// already holds much of the memory of earlier bytes.
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

    /// Drops all data, because the stream's data is no longer wanted.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.chunks.drain(..).for_each(|chunk| pool.give(chunk.into_memory()));
        pool.account(self.spare, 0);
        let untaken = self.untaken.as_ref().map_or(0, |untaken| untaken.ranges());
        pool.ranges = pool.ranges.saturating_sub(self.ahead.len() + untaken);
        pool.large = pool.large.saturating_sub(usize::from(self.is_large));
        let untaken = self.untaken.is_some().then(Box::default);
        *self = Self { read: self.ready, ready: self.ready, untaken, ..Self::default() };
    }

    /// Returns the chunk that covers `offset`, for `len` bytes of data. Creates the chunk if it does not
    /// exist.
    ///
    /// A new chunk covers only a part of the gap around `offset`. It begins at the start of the gap, or, for
    /// data far ahead, a multiple of the chunk size later. Therefore neither a jump nor descending offsets
    /// create many or large chunks.
    fn chunk_at(&mut self, offset: u64, len: usize, pool: &mut Pool) -> &mut Chunk {
        let above = match self.chunk_of(offset) {
            Ok(at) => return &mut self.chunks[at],
            Err(above) => above,
        };
        let wanted = self.next_chunk.max(len.min(MAX_CHUNK)) + self.slack;
        let room = pool.allowance(wanted, self.live(offset + len as u64));
        // If the budget is nearly used up, the chunk has no extra memory for decrypting in place.
        let slack = if room < MIN_CHUNK + self.slack { 0 } else { self.slack };
        let range = self.hole_part(above, offset, (room - slack) as u64);
        self.next_chunk = (self.next_chunk * GROWTH).min(MAX_CHUNK);
        let memory = pool.take((range.end - range.start) as usize + slack);
        self.add_chunk(above, Chunk::new(range, memory), pool);
        &mut self.chunks[above]
    }

    /// Returns the number of unread bytes, as flow control counts them, if data that ends at `end` has
    /// arrived.
    fn live(&self, end: u64) -> u64 {
        match &self.untaken {
            Some(untaken) => untaken.bytes(),
            None => self.highest().max(end) - self.read,
        }
    }

    /// Inserts a chunk at index `at`.
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

    /// Reports to the pool the buffer memory that the peer's used credit does not cover: the first and the
    /// last chunk, and the memory of the others beyond their stream bytes.
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

    /// Returns the index of the chunk that covers `offset`. If no chunk covers it, returns as the error the
    /// index of the first chunk above it.
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

    /// Returns the range of a new chunk of `size` bytes for `offset`, in the gap below the chunk with index
    /// `above`.
    fn hole_part(&self, above: usize, offset: u64, size: u64) -> Range<u64> {
        let hole_start = above.checked_sub(1).map_or(self.read, |at| self.chunks[at].end);
        let hole_end = self.chunks.get(above).map_or(self.limit, |chunk| chunk.start.min(self.limit));
        let start = offset - (offset - hole_start) % size;
        start..hole_end.min(start.saturating_add(size)).max(offset + 1)
    }
}

#[cfg(test)]
mod tests;
