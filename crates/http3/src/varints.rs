//! Varints in a row: what begins each frame, each capsule and each unidirectional stream.

use anabranch_wire::{Direction, Reader};

/// Bytes of the two longest varints; nothing here has more than two.
const MAX_BYTES: usize = 16;

/// Gathers `N` varints, one or two, from bytes that may be split anywhere.
#[derive(Clone, Debug)]
pub(crate) struct VarintsReader<const N: usize> {
    kept: [u8; MAX_BYTES],
    len: usize,
}

impl<const N: usize> VarintsReader<N> {
    /// Creates an empty reader.
    pub(crate) const fn new() -> Self {
        const { assert!(N <= 2) };
        Self { kept: [0; MAX_BYTES], len: 0 }
    }

    /// Takes bytes up to the end of the last varint. How many were taken, and the varints once they are
    /// whole; the reader is then ready for the next ones.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8]) -> (usize, Option<[u64; N]>) {
        if self.len == 0
            && let Some((varints, taken)) = parse(bytes)
        {
            return (taken, Some(varints));
        }
        self.gather(bytes)
    }

    /// Returns whether the next byte is the first one.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gathers a varint that arrives in pieces, byte by byte. [`MAX_BYTES`] always hold whole ones, so there
    /// is room for each byte.
    #[cold]
    fn gather(&mut self, bytes: &[u8]) -> (usize, Option<[u64; N]>) {
        for (index, byte) in bytes.iter().enumerate() {
            self.kept[self.len] = *byte;
            self.len += 1;
            if let Some((varints, _)) = parse(&self.kept[..self.len]) {
                self.len = 0;
                return (index + 1, Some(varints));
            }
        }
        (bytes.len(), None)
    }
}

impl<const N: usize> Default for VarintsReader<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the varints at the front of `bytes`, and returns them with their length in bytes; `None` if they do
/// not end within `bytes`.
fn parse<const N: usize>(bytes: &[u8]) -> Option<([u64; N], usize)> {
    let mut reader = Reader::new(bytes, Direction::Forward);
    let mut varints = [0; N];
    for varint in &mut varints {
        *varint = reader.varint().ok()?;
    }
    Some((varints, bytes.len() - reader.remaining()))
}
