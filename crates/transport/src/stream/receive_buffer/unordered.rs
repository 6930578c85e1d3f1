//! Out-of-order reading: the application takes bytes that have arrived, even if earlier bytes are missing.
//!
//! `ready` and `ahead` still record all received bytes, so that nothing is taken twice. In addition, a set of
//! ranges records the bytes that can still be taken. A chunk without such bytes is released, even if it has
//! gaps. If data arrives for them later, a new chunk is created. Only the last chunk is kept, because more
//! data is likely to arrive there.

use std::ops::Range;

use bytes::Bytes;

use super::pool::CHUNK_COST;
use super::{Chunk, Pool, ReceiveBuffer, TooFragmented};
use crate::ranges::RangeSet;

/// Data that has arrived and has not been taken yet.
#[derive(Debug, Default)]
pub(super) struct Untaken {
    ranges: RangeSet,
    bytes: u64,
    /// Start offset of a chunk that was kept as the last one when its last byte was taken.
    kept: Option<u64>,
}

impl Untaken {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    fn add(&mut self, range: Range<u64>) {
        self.bytes += self.ranges.insert(range);
    }

    fn is_clear(&self, chunk: &Chunk) -> bool {
        self.ranges.within(chunk.start..chunk.end).next().is_none()
    }
}

impl ReceiveBuffer {
    /// Returns whether bytes are taken out of order.
    #[inline]
    pub(crate) fn is_unordered(&self) -> bool {
        self.untaken.is_some()
    }

    /// Switches to out-of-order reading. `peek`, `consume` and `take` must not be called from then on.
    fn begin_unordered(&mut self, pool: &mut Pool) {
        let mut untaken = Untaken::default();
        for range in Some(self.read..self.ready).into_iter().chain(self.ahead.iter()) {
            untaken.add(range);
        }
        pool.ranges += untaken.ranges();
        self.untaken = Some(Box::new(untaken));
        self.account(pool);
    }

    /// Records that `[offset, end)` is about to be received; parts of it may be known already.
    ///
    /// Fails if this would create too many separate ranges.
    pub(super) fn note_untaken(
        &mut self,
        offset: u64,
        end: u64,
        pool: &mut Pool,
    ) -> Result<(), TooFragmented> {
        let wanted = offset.max(self.ready)..end;
        let Some(untaken) = &mut self.untaken else { return Ok(()) };
        if wanted.is_empty() {
            return Ok(());
        }
        let before = untaken.ranges();
        self.ahead.gaps(wanted).for_each(|gap| untaken.add(gap));
        pool.ranges = (pool.ranges + untaken.ranges()).saturating_sub(before);
        let is_full = untaken.ranges() > self.max_fragments || pool.ranges > pool.max_ranges();
        if is_full { Err(TooFragmented) } else { Ok(()) }
    }

    /// Takes the bytes with the lowest offset that have not been taken, at most `max`, from one chunk. Bytes
    /// at the beginning of the chunk are not copied, unless the application already holds much of the memory
    /// of earlier bytes.
    pub(crate) fn take_unordered(&mut self, max: usize, pool: &mut Pool) -> Option<(u64, Bytes)> {
        if !self.is_unordered() {
            self.begin_unordered(pool);
        }
        let first = self.untaken.as_ref()?.ranges.first()?;
        let at = self.chunk_of(first.start).ok()?;
        let chunk = &mut self.chunks[at];
        let len = (first.end.min(chunk.end) - first.start).min(max as u64);
        let n = len as usize;
        let from = (first.start - chunk.start) as usize;
        let taken = if from > 0 || pool.must_copy(n) {
            Bytes::copy_from_slice(&chunk.data[from..from + n])
        } else {
            chunk.start += len;
            self.excess += n;
            chunk.data.split_to(n).freeze()
        };
        let until = first.start + len;
        if let Some(untaken) = &mut self.untaken {
            let before = untaken.ranges();
            untaken.bytes -= untaken.ranges.remove(first.start..until);
            pool.ranges = (pool.ranges + untaken.ranges()).saturating_sub(before);
            let next = untaken.ranges.first().map_or(self.ready, |next| next.start);
            self.read = next.min(self.ready);
        }
        self.let_go(at, pool);
        self.account(pool);
        Some((first.start, taken))
    }

    /// Releases a chunk without bytes to take, unless it is the last one and has room.
    fn let_go(&mut self, at: usize, pool: &mut Pool) {
        let highest = self.highest();
        let (Some(untaken), Some(chunk)) = (&mut self.untaken, self.chunks.get(at)) else { return };
        if !untaken.is_clear(chunk) {
            return;
        }
        let is_last = at + 1 == self.chunks.len();
        if is_last && chunk.end > highest {
            untaken.kept = Some(chunk.start);
            return;
        }
        if let Some(chunk) = self.chunks.remove(at) {
            self.excess = self.excess.saturating_sub(chunk.excess());
            self.rooms = self.rooms.saturating_sub(chunk.room);
            pool.give(chunk.into_memory());
        }
    }

    /// Releases the chunk that was kept as the last one, if it is no longer the last.
    pub(super) fn let_go_kept(&mut self, pool: &mut Pool) {
        let Some(untaken) = &mut self.untaken else { return };
        let Some(start) = untaken.kept else { return };
        if self.chunks.back().is_some_and(|last| last.start == start) {
            return;
        }
        untaken.kept = None;
        if let Ok(at) = self.chunk_of(start) {
            self.let_go(at, pool);
            self.account(pool);
        }
    }

    /// Returns the memory that the peer's used credit does not cover.
    pub(super) fn spare_unordered(&self, untaken: &Untaken) -> usize {
        let covered = usize::try_from(untaken.bytes).unwrap_or(usize::MAX);
        (self.rooms + self.chunks.len() * CHUNK_COST).saturating_sub(covered)
    }
}
