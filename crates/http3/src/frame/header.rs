//! Type and length of a frame (RFC 9114 §7.1).

use anabranch_wire::{push_varint, varint_len};

use super::FrameType;
use crate::varints::VarintsReader;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Type of the frame.
    pub kind: FrameType,
    /// Bytes of payload that follow.
    pub len: u64,
}

/// Gathers a frame header from bytes that may be split anywhere; it keeps at most 16 of them.
#[derive(Clone, Debug, Default)]
pub struct HeaderReader(VarintsReader<2>);

impl HeaderReader {
    /// Takes bytes up to the end of the header: how many were taken, and the header once it is whole. The
    /// reader is then ready for the next one.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) -> (usize, Option<FrameHeader>) {
        let (taken, header) = self.0.read(bytes);
        (taken, header.map(|[kind, len]| FrameHeader { kind: FrameType(kind), len }))
    }

    /// Returns whether the stream is between two frames, as far as this reader knows. A stream that ends
    /// elsewhere is H3_FRAME_ERROR.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a frame header.
#[inline]
pub fn write_header(kind: FrameType, len: u64, out: &mut Vec<u8>) {
    push_varint(out, kind.0);
    push_varint(out, len);
}

/// Returns the length of a frame header in bytes.
#[inline]
pub const fn header_len(kind: FrameType, len: u64) -> usize {
    varint_len(kind.0) + varint_len(len)
}
