//! Reassembly by one copy, for packets that are decrypted in their datagrams.

use std::ops::Range;

use super::{Chunk, Pool, ReceiveBuffer};

/// Error for data that would leave more gaps than are remembered. The data was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFragmented;

impl ReceiveBuffer {
    /// Inserts `data` at `offset`. Data may arrive in any order and repeatedly. Returns whether more can be
    /// read now.
    ///
    /// Bytes received before are not overwritten (RFC 9000 §2.2: data at an offset does not change).
    pub(crate) fn insert(
        &mut self,
        offset: u64,
        data: &[u8],
        pool: &mut Pool,
    ) -> Result<bool, TooFragmented> {
        if self.is_unordered() {
            self.note_untaken(offset, offset + data.len() as u64, pool)?;
            let grew = self.put_in(offset, data, pool);
            self.let_go_kept(pool);
            return grew;
        }
        self.put_in(offset, data, pool)
    }

    fn put_in(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> Result<bool, TooFragmented> {
        let end = offset + data.len() as u64;
        if offset <= self.ready && self.ahead.is_empty() {
            // In-order data is the common case.
            let known = (self.ready - offset).min(data.len() as u64) as usize;
            self.copy_in(offset + known as u64, &data[known..], pool);
            return Ok(self.advance_to(end));
        }
        let wanted = offset.max(self.ready)..end;
        if wanted.is_empty() {
            return Ok(false);
        }
        let is_next = wanted.start == self.ready;
        if !is_next {
            self.check_fragments(&wanted, pool)?;
        }
        let before = self.ahead.len();
        let mut ahead = std::mem::take(&mut self.ahead);
        let copy = |gap: Range<u64>| self.copy_in(gap.start, &data[within(&gap, offset)], pool);
        if is_next {
            ahead.gaps(wanted).for_each(copy);
        } else {
            ahead.insert_with(wanted, copy);
        }
        self.ahead = ahead;
        let grew = is_next && self.advance_to(end);
        self.count_fragments(before, pool);
        Ok(grew)
    }

    /// Marks bytes in their place as received. Returns whether more can be read now.
    #[inline]
    pub(super) fn mark(&mut self, offset: u64, len: usize, pool: &mut Pool) -> Result<bool, TooFragmented> {
        let wanted = offset.max(self.ready)..offset + len as u64;
        if wanted.is_empty() {
            return Ok(false);
        }
        if wanted.start <= self.ready && self.ahead.is_empty() {
            return Ok(self.advance_to(wanted.end));
        }
        self.mark_among(wanted, pool)
    }

    /// Marks bytes as received while others are missing, like [`Self::mark`].
    fn mark_among(&mut self, wanted: Range<u64>, pool: &mut Pool) -> Result<bool, TooFragmented> {
        let before = self.ahead.len();
        let mut grew = false;
        if wanted.start <= self.ready {
            grew = self.advance_to(wanted.end);
        } else {
            self.check_fragments(&wanted, pool)?;
            self.ahead.insert(wanted);
        }
        self.count_fragments(before, pool);
        Ok(grew)
    }

    /// Fails if `wanted` would be one separate range too many.
    fn check_fragments(&self, wanted: &Range<u64>, pool: &Pool) -> Result<(), TooFragmented> {
        let is_full = self.ahead.len() >= self.max_fragments || pool.ranges >= pool.max_ranges();
        if is_full && !self.ahead.touches(wanted) { Err(TooFragmented) } else { Ok(()) }
    }

    /// Updates the pool's count of ranges, which was `before` for this stream.
    fn count_fragments(&self, before: usize, pool: &mut Pool) {
        pool.ranges = (pool.ranges + self.ahead.len()).saturating_sub(before);
    }

    /// Advances the contiguous data to `end`, and past data that waited for it.
    pub(super) fn advance_to(&mut self, end: u64) -> bool {
        let before = self.ready;
        self.ready = before.max(end);
        while let Some(next) = self.ahead.first().filter(|next| next.start <= self.ready) {
            self.ready = self.ready.max(next.end);
            self.ahead.pop_min();
        }
        self.ready > before
    }

    fn copy_in(&mut self, mut offset: u64, mut data: &[u8], pool: &mut Pool) {
        while !data.is_empty() {
            let chunk = self.chunk_at(offset, data.len(), pool);
            let n = data.len().min((chunk.end - offset) as usize);
            let (now, later) = data.split_at(n);
            chunk.write(offset, now);
            data = later;
            offset += n as u64;
        }
    }
}

impl Chunk {
    /// Writes `data` at `offset`, where the chunk must have room for it.
    fn write(&mut self, offset: u64, data: &[u8]) {
        let at = (offset - self.start) as usize;
        if at > self.data.len() {
            self.data.resize(at, 0);
        }
        let (inside, beyond) = data.split_at(data.len().min(self.data.len() - at));
        self.data[at..at + inside.len()].copy_from_slice(inside);
        self.data.extend_from_slice(beyond);
    }
}

/// Returns `range` as indices of a slice that starts at `offset`.
fn within(range: &Range<u64>, offset: u64) -> Range<usize> {
    (range.start - offset) as usize..(range.end - offset) as usize
}
