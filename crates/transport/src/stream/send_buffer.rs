//! Data that the application has written and the peer has not acknowledged yet.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use crate::ranges::RangeSet;

/// Maximum size, in bytes, of a chunk that collects small writes.
const MAX_CHUNK: usize = 64 * 1024;

/// Size in bytes below which writes are copied even if they are `Bytes`: a reference would cost as much as
/// the copy.
const MIN_REFERENCE: usize = 512;

/// The bytes of one stream from the first unacknowledged one to the last one written.
///
/// ```text
/// 0 ……… base ………………… unsent ……… end
///  acked      in flight        queued
/// ```
/// Some ranges in flight may be acknowledged out of order, and some may be lost. Lost ranges are sent again
/// before new data.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    /// Complete chunks up to `tail_start`, each with its start offset.
    chunks: VecDeque<(u64, Bytes)>,
    /// Chunk to which small writes are copied. It never grows beyond its initial capacity.
    tail: Vec<u8>,
    tail_start: u64,
    /// Index of the chunk that was read last, the likely place of the next read.
    hint: usize,
    base: u64,
    unsent: u64,
    acked: RangeSet,
    lost: RangeSet,
    /// Ends of sent segments that may have to be sent again unchanged, ascending; empty unless
    /// [`Self::cut_at`] is used.
    cuts: VecDeque<u64>,
    lost_bytes: u64,
}

impl SendBuffer {
    /// Returns the offset behind the last byte written.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.tail_start + self.tail.len() as u64
    }

    /// Returns the offset of the first byte that was never sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Returns the offset of the first byte that the peer has not acknowledged.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Records `end` as the end of a segment.
    pub(crate) fn cut_at(&mut self, end: u64) {
        while self.cuts.front().is_some_and(|cut| *cut <= self.base) {
            self.cuts.pop_front();
        }
        if let Err(place) = self.cuts.binary_search(&end) {
            self.cuts.insert(place, end);
        }
    }

    /// Returns the end of the segment that contains the byte at `offset`; `u64::MAX` if none was recorded.
    pub(crate) fn cut_after(&self, offset: u64) -> u64 {
        let next = self.cuts.partition_point(|cut| *cut <= offset);
        self.cuts.get(next).copied().unwrap_or(u64::MAX)
    }

    /// Returns the number of bytes written that are still in the buffer.
    #[inline]
    pub(crate) fn buffered(&self) -> u64 {
        self.end() - self.base
    }

    /// Returns the number of bytes to send, new and lost.
    #[inline]
    pub(crate) fn pending(&self) -> u64 {
        self.end() - self.unsent + self.lost_bytes
    }

    /// Returns whether everything written has been acknowledged.
    #[inline]
    pub(crate) fn is_all_acked(&self) -> bool {
        self.base == self.end()
    }

    /// Appends a copy of `data`.
    pub(crate) fn write(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.tail.len() == self.tail.capacity() {
                self.start_tail(data.len());
            }
            let fits = data.len().min(self.tail.capacity() - self.tail.len());
            let (now, later) = data.split_at(fits);
            self.tail.extend_from_slice(now);
            data = later;
        }
    }

    /// Appends `data` without copying it, unless it is small.
    pub(crate) fn write_bytes(&mut self, data: Bytes) {
        if data.len() < MIN_REFERENCE {
            return self.write(&data);
        }
        self.close_tail();
        let start = self.tail_start;
        self.tail_start += data.len() as u64;
        self.chunks.push_back((start, data));
    }

    /// Starts a new tail for at least `len` bytes. Each tail is twice as large as the previous one, so that
    /// streams with few small writes stay small.
    fn start_tail(&mut self, len: usize) {
        let size = len.max(self.tail.capacity() * 2).min(MAX_CHUNK);
        self.close_tail();
        self.tail = Vec::with_capacity(size);
    }

    fn close_tail(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        let mut tail = std::mem::take(&mut self.tail);
        if tail.len() < tail.capacity() / 2 {
            tail.shrink_to_fit();
        }
        let start = self.tail_start;
        self.tail_start += tail.len() as u64;
        self.chunks.push_back((start, Bytes::from(tail)));
    }

    /// Returns the next range to send: lost bytes first, new bytes only below `limit`.
    #[inline]
    pub(crate) fn next(&self, limit: u64) -> Option<Range<u64>> {
        let new = self.unsent..self.end().min(limit);
        self.lost.first().or_else(|| (!new.is_empty()).then_some(new))
    }

    /// Returns the next new bytes below `limit`, ignoring lost bytes.
    pub(crate) fn next_new(&self, limit: u64) -> Option<Range<u64>> {
        let new = self.unsent..self.end().min(limit);
        (!new.is_empty()).then_some(new)
    }

    /// Marks `range` as written to a packet. It must be a beginning of the range that [`Self::next`]
    /// returned.
    #[inline]
    pub(crate) fn mark_sent(&mut self, range: Range<u64>) {
        if range.start >= self.unsent {
            self.unsent = range.end;
        } else {
            self.lost_bytes -= self.lost.remove(range);
        }
    }

    /// Copies the bytes from `offset` on until `to` is full. They must be in the buffer.
    pub(crate) fn copy_to(&mut self, mut offset: u64, mut to: &mut [u8]) {
        while !to.is_empty() {
            let from = self.slice_at(offset);
            let n = from.len().min(to.len());
            debug_assert!(n > 0, "bytes that are not in the buffer");
            let (now, later) = std::mem::take(&mut to).split_at_mut(n);
            now.copy_from_slice(&from[..n]);
            to = later;
            offset += n as u64;
        }
    }

    /// Returns the bytes from `offset` to the end of their chunk.
    fn slice_at(&mut self, offset: u64) -> &[u8] {
        if offset >= self.tail_start {
            return &self.tail[(offset - self.tail_start) as usize..];
        }
        let holds = |(start, data): &(u64, Bytes)| (*start..*start + data.len() as u64).contains(&offset);
        if !self.chunks.get(self.hint).is_some_and(holds) {
            self.hint = self.chunks.partition_point(|(start, _)| *start <= offset) - 1;
        }
        let (start, data) = &self.chunks[self.hint];
        &data[(offset - start) as usize..]
    }

    /// Marks `range` as acknowledged. Returns the number of bytes that left the buffer.
    pub(crate) fn ack(&mut self, range: Range<u64>) -> u64 {
        let range = range.start.max(self.base)..range.end.min(self.unsent);
        if range.is_empty() {
            return 0;
        }
        if !self.lost.is_empty() {
            self.lost_bytes -= self.lost.remove(range.clone());
        }
        if range.start > self.base {
            self.acked.insert(range);
            return 0;
        }
        let before = self.base;
        self.base = range.end;
        while let Some(next) = self.acked.first().filter(|next| next.start <= self.base) {
            self.base = self.base.max(next.end);
            self.acked.pop_min();
        }
        self.release();
        self.base - before
    }

    /// Drops chunks below `base`.
    fn release(&mut self) {
        while let Some((start, data)) = self.chunks.front() {
            if start + data.len() as u64 > self.base {
                break;
            }
            self.chunks.pop_front();
            self.hint = self.hint.saturating_sub(1);
        }
        if self.base == self.end() {
            self.tail_start = self.base;
            self.tail.clear();
        }
    }

    /// Queues for retransmission the parts of `range` that have not been acknowledged meanwhile.
    pub(crate) fn lose(&mut self, range: Range<u64>) {
        let range = range.start.max(self.base)..range.end.min(self.unsent);
        for gap in self.acked.gaps(range) {
            self.lost_bytes += self.lost.insert(gap);
        }
    }

    /// Returns the first part of `range` that is neither acknowledged nor known to be lost.
    pub(crate) fn unacked(&self, range: Range<u64>) -> Option<Range<u64>> {
        let range = range.start.max(self.base)..range.end.min(self.unsent);
        let mut under_way = self.acked.gaps(range).flat_map(|gap| self.lost.gaps(gap));
        under_way.next()
    }

    /// Queues all data to be sent again as if it had never been sent, because 0-RTT was refused.
    pub(crate) fn rewind(&mut self) {
        self.unsent = self.base;
        self.lost.clear();
        self.cuts.clear();
        self.lost_bytes = 0;
    }

    /// Drops all bytes, but keeps the number of bytes sent. Returns the number of bytes that left the buffer.
    pub(crate) fn discard(&mut self) -> u64 {
        let buffered = self.buffered();
        *self = Self { base: self.unsent, unsent: self.unsent, tail_start: self.unsent, ..Self::default() };
        buffered
    }
}

#[cfg(test)]
mod tests;
