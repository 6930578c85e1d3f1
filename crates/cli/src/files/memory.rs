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
/// Number of bytes that all responses share for reading ahead. Beyond it, a response still holds two pieces of
/// [`MIN_PIECE`].
pub(super) const MAX_READ_AHEAD: u64 = 256 << 20;
/// Minimum number of pieces into which the free part of [`MAX_READ_AHEAD`] is divided, so that responses that began
/// early leave room for later ones.
const FREE_PARTS: u64 = 64;
/// Maximum number of free pieces that are kept for reuse.
const MAX_SPARE: usize = 64;

/// Memory that all responses of a service share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    answers: AtomicU64,
    /// Bytes of all pieces that are being sent or are ready.
    ahead: AtomicU64,
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
        Claim { memory: self.clone(), sending: 0, ready: 0 }
    }

    /// Returns an empty buffer for `len` bytes. Large pieces have one size, so that they can be reused.
    fn piece(&self, len: u64) -> Piece {
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
pub(super) struct Claim {
    memory: Memory,
    /// Sizes of the response's last two pieces. It reads a piece when the one before begins to be sent.
    sending: u64,
    ready: u64,
}

impl Claim {
    /// Returns the number of bytes that may be read at a time: the response's share of [`MAX_READ_AHEAD`], or less if
    /// responses that had a larger share have left less. It is a power of two, so that the allocator can use the memory of
    /// former pieces again.
    pub(super) fn piece(&self) -> u64 {
        let shared = &self.memory.0;
        let share = MAX_READ_AHEAD / (2 * shared.answers.load(Ordering::Relaxed).max(1));
        let free = MAX_READ_AHEAD.saturating_sub(shared.ahead.load(Ordering::Relaxed));
        let most = share.min(free / FREE_PARTS).clamp(MIN_PIECE, MAX_PIECE);
        1 << most.ilog2()
    }

    /// Returns an empty buffer for the response's next `len` bytes.
    pub(super) fn next(&mut self, len: u64) -> Piece {
        let piece = self.memory.piece(len);
        let ahead = &self.memory.0.ahead;
        ahead.fetch_sub(self.sending, Ordering::Relaxed);
        self.sending = std::mem::replace(&mut self.ready, piece.bytes.capacity() as u64);
        ahead.fetch_add(self.ready, Ordering::Relaxed);
        piece
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.memory.0.answers.fetch_sub(1, Ordering::Relaxed);
        self.memory.0.ahead.fetch_sub(self.sending + self.ready, Ordering::Relaxed);
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
mod tests;
