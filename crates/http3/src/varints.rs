//! Parser of consecutive varints, as at the beginning of each frame, capsule and unidirectional stream.

use anabranch_wire::{Direction, Reader};

/// Length of the two longest varints, in bytes. No reader reads more than two.
const MAX_BYTES: usize = 16;

/// Incremental parser of `N` varints, one or two. It accepts the bytes in pieces of any size.
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

    /// Reads up to the end of the last varint. Returns the number of bytes read, and the varints once they
    /// are complete. The reader is then ready for the next ones.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8]) -> (usize, Option<[u64; N]>) {
        if self.len == 0
            && let Some((varints, taken)) = parse(bytes)
        {
            return (taken, Some(varints));
        }
        self.gather(bytes)
    }

    /// Returns whether no bytes are buffered, so that the next byte is the first of a varint.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads varints that arrive in pieces, byte by byte. The buffer of [`MAX_BYTES`] never overflows,
    /// because it can hold the longest complete varints.
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

/// Parses the varints at the front of `bytes`, and returns them with their total length in bytes; `None` if
/// `bytes` is too short.
fn parse<const N: usize>(bytes: &[u8]) -> Option<([u64; N], usize)> {
    let mut reader = Reader::new(bytes, Direction::Forward);
    let mut varints = [0; N];
    for varint in &mut varints {
        *varint = reader.varint().ok()?;
    }
    Some((varints, bytes.len() - reader.remaining()))
}
