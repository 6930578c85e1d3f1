//! The memory that pieces of files are read into: it is counted, shared by all answers, and used again.
//!
//! Pieces are read on one thread and dropped on another, whenever the client has acknowledged them. An
//! allocator that gives each thread memory of its own keeps them for the thread that made them, so that many
//! threads keep many times what is in use; here, whatever thread needs a piece takes one that is free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Most bytes of a file that are read at a time. An answer holds one piece that is being sent, and one that
/// is ready.
pub(super) const MAX_PIECE: u64 = 128 * 1024;
/// Fewest bytes that are read at a time, however many answers there are.
pub(super) const MIN_PIECE: u64 = 4 * 1024;
/// Bytes that all answers share for reading ahead.
pub(super) const MAX_READ_AHEAD: u64 = 256 << 20;
/// Free pieces that are kept to be used again.
const MAX_SPARE: usize = 64;

/// The memory that all answers of a service share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    answers: AtomicU64,
    /// Bytes of pieces that are in use, wherever they are.
    held: AtomicU64,
    /// The most that ever were.
    most: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Memory {
    /// Returns the bytes of pieces in use: read ahead, waiting to be sent, or sent and not acknowledged yet.
    pub(crate) fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Returns the most that [`Self::held`] has been.
    pub(crate) fn most(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// Claims room for one more answer.
    pub(super) fn claim(&self) -> Claim {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        Claim(self.clone())
    }

    /// Returns empty memory for `len` bytes. Large pieces have one size, so that they can be used again.
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

/// An answer's part of the memory.
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

/// A part of a file in memory that goes back when nobody refers to it any longer.
#[derive(Debug)]
pub(super) struct Piece {
    /// Never grows beyond its first capacity.
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

    /// However many answers there are, what they hold stays near the bound, and room comes back with their
    /// end.
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
        // A slice of a piece holds all of it.
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
