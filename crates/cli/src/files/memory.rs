//! Memory that files are read into. It is counted, shared by all responses, and reused.
//!
//! A piece is read on one thread and dropped on another, when the client has acknowledged it. An allocator
//! with per-thread memory returns a piece to the thread that allocated it, so many threads retain several
//! times the memory in use. Here any thread reuses any free piece.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Maximum number of bytes of a file that are read at a time. A response holds one piece that is being sent,
/// and one that is ready.
pub(super) const MAX_PIECE: u64 = 128 * 1024;
/// Minimum number of bytes that are read at a time, regardless of the number of responses.
pub(super) const MIN_PIECE: u64 = 4 * 1024;
/// Number of bytes that all responses share for reading ahead.
pub(super) const MAX_READ_AHEAD: u64 = 256 << 20;
/// Maximum number of free pieces that are kept for reuse.
const MAX_SPARE: usize = 64;

/// Memory that all responses of a service share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    answers: AtomicU64,
    /// Bytes of all pieces in use.
    held: AtomicU64,
    /// Maximum value that `held` has had.
    most: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Memory {
    /// Returns the bytes of pieces in use: read ahead, waiting to be sent, or sent and not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Returns the maximum that [`Self::held`] has returned.
    pub(crate) fn most(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// Claims a share of the memory for one more response.
    pub(super) fn claim(&self) -> Claim {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        Claim(self.clone())
    }

    /// Returns an empty buffer for `len` bytes. Large pieces have one size, so that they can be reused.
    pub(super) fn piece(&self, len: u64) -> Piece {
        let is_large = 2 * len >= MAX_PIECE;
        let free = if is_large { self.spare().pop() } else { None };
        let size = if is_large { MAX_PIECE.max(len) } else { len };
        let bytes = free.unwrap_or_else(|| Vec::with_capacity(size as usize));
        let held =
            self.0.held.fetch_add(bytes.capacity() as u64, Ordering::Relaxed) + bytes.capacity() as u64;
        self.0.most.fetch_max(held, Ordering::Relaxed);
        Piece { bytes, memory: self.clone() }
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response's share of the memory.
#[derive(Debug)]
pub(super) struct Claim(Memory);

impl Claim {
    /// Returns the number of bytes that may be read at a time.
    pub(super) fn piece(&self) -> u64 {
        let answers = self.0.0.answers.load(Ordering::Relaxed).max(1);
        (MAX_READ_AHEAD / (2 * answers)).clamp(MIN_PIECE, MAX_PIECE)
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.0.answers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Part of a file in memory. The buffer is freed for reuse with its last reference.
#[derive(Debug)]
pub(super) struct Piece {
    /// Content; never grows beyond its initial capacity.
    pub(super) bytes: Vec<u8>,
    memory: Memory,
}

impl From<Piece> for Bytes {
    fn from(piece: Piece) -> Self {
        Self::from_owner(piece)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.memory.0.held.fetch_sub(bytes.capacity() as u64, Ordering::Relaxed);
        if bytes.capacity() as u64 == MAX_PIECE {
            bytes.clear();
            let mut spare = self.memory.spare();
            if spare.len() < MAX_SPARE {
                spare.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of many responses stays near the bound, and is free again when they end.
    #[test]
    fn many_answers_share_the_memory() {
        let memory = Memory::default();
        let fit = MAX_READ_AHEAD / (2 * MAX_PIECE);
        let mut claims: Vec<_> = (0..fit).map(|_| memory.claim()).collect();
        assert_eq!(claims[0].piece(), MAX_PIECE);
        claims.extend((0..fit).map(|_| memory.claim()));
        assert_eq!(claims[0].piece(), MAX_PIECE / 2);
        claims.extend((0..100 * fit).map(|_| memory.claim()));
        assert_eq!(claims[0].piece(), MIN_PIECE);
        claims.truncate(1);
        assert_eq!(claims[0].piece(), MAX_PIECE);
        drop(claims);
        assert_eq!(memory.0.answers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn pieces_are_counted_and_used_again_up_to_max_spare() {
        let memory = Memory::default();
        let pieces: Vec<Bytes> = (0..2 * MAX_SPARE)
            .map(|_| {
                let mut piece = memory.piece(MAX_PIECE);
                piece.bytes.extend_from_slice(b"content");
                piece.into()
            })
            .collect();
        let all = 2 * MAX_SPARE as u64 * MAX_PIECE;
        assert_eq!((memory.held(), memory.most()), (all, all));
        // A slice of a piece keeps the whole piece in use.
        let slices: Vec<_> = pieces.iter().map(|piece| piece.slice(..1)).collect();
        drop(pieces);
        assert_eq!(memory.held(), all);
        let places: Vec<_> = slices.iter().map(|slice| slice.as_ptr()).collect();
        drop(slices);
        assert_eq!((memory.held(), memory.spare().len()), (0, MAX_SPARE));
        let again = memory.piece(MAX_PIECE - 1);
        assert!(again.bytes.is_empty() && places.contains(&again.bytes.as_ptr()));
        drop(memory.piece(10));
        assert_eq!((memory.held(), memory.most()), (MAX_PIECE, all));
    }
}
