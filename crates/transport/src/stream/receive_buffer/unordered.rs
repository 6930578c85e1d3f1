//! Bytes that the application takes in whatever order they arrive.
//!
//! What has been received stays known in `ready` and `ahead`, so that nothing is taken twice; beside that, a
//! set of ranges says what is still to be taken. A chunk without such bytes is let go of, holes or not:
//! should something arrive for them, another one is made. Only the last chunk is kept, because more is likely
//! to arrive there.

use std::ops::Range;

use bytes::Bytes;

use super::pool::CHUNK_COST;
use super::{Chunk, Pool, ReceiveBuffer, TooFragmented};
use crate::ranges::RangeSet;

/// Data that has arrived and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Untaken {
    ranges: RangeSet,
    bytes: u64,
    /// Offset of the chunk that was the last one when its last byte was taken.
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
    /// Tells if bytes are taken in any order.
    #[inline]
    pub(crate) fn is_unordered(&self) -> bool {
        self.untaken.is_some()
    }

    /// Gives bytes in any order from now on; `peek`, `consume` and `take` are not to be called any more.
    fn begin_unordered(&mut self, pool: &mut Pool) {
        let mut untaken = Untaken::default();
        for range in Some(self.read..self.ready).into_iter().chain(self.ahead.iter()) {
            untaken.add(range);
        }
        pool.ranges += untaken.ranges();
        self.untaken = Some(Box::new(untaken));
        self.account(pool);
    }

    /// Takes in the news that `[offset, end)` is about to be received, of which part may be known.
    ///
    /// Fails if it would be more ranges than may be kept apart.
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

    /// Takes the bytes with the lowest offset that have not been taken, at most `max` and of one chunk. Those
    /// at its beginning are not copied, unless the application holds much memory of what it took before.
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

    /// Lets go of a chunk that nothing is to be taken of, unless it is the last one and has room.
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

    /// Lets go of the chunk that was kept as the last one, if it is not the last any more.
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

    /// Computes the room that the peer's use of its credit does not account for.
    pub(super) fn spare_unordered(&self, untaken: &Untaken) -> usize {
        let covered = usize::try_from(untaken.bytes).unwrap_or(usize::MAX);
        (self.rooms + self.chunks.len() * CHUNK_COST).saturating_sub(covered)
    }
}
