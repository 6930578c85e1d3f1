//! Type and length of a frame (RFC 9114 §7.1).

use anabranch_wire::{push_varint, varint_len};

use super::FrameType;
use crate::varints::VarintsReader;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Type of the frame.
    pub kind: FrameType,
    /// Length of the payload, in bytes.
    pub len: u64,
}

/// Incremental parser of frame headers. It accepts bytes in pieces of any size and buffers at most 16 of
/// them.
#[derive(Clone, Debug, Default)]
pub struct HeaderReader(VarintsReader<2>);

impl HeaderReader {
    /// Reads up to the end of the header. Returns the number of bytes read, and the header once it is
    /// complete. The reader is then ready for the next header.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) -> (usize, Option<FrameHeader>) {
        let (taken, header) = self.0.read(bytes);
        (taken, header.map(|[kind, len]| FrameHeader { kind: FrameType(kind), len }))
    }

    /// Returns `true` if no part of a header is buffered. A stream that ends inside a header is an
    /// H3_FRAME_ERROR.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a frame header to `out`.
#[inline]
pub fn write_header(kind: FrameType, len: u64, out: &mut Vec<u8>) {
    push_varint(out, kind.0);
    push_varint(out, len);
}

/// Returns the encoded length of a frame header, in bytes.
#[inline]
pub const fn header_len(kind: FrameType, len: u64) -> usize {
    varint_len(kind.0) + varint_len(len)
}
