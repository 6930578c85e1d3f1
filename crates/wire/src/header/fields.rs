//! Fields of received headers, and of headers to write.

use super::{PacketKind, decode_packet_number};
use crate::{ConnectionId, StreamId};

/// Stream position of a packet's data, for the packet's header. Only some formats announce it
/// ([`Format::names_stream`](crate::Format::names_stream)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// ID of the stream.
    pub stream: StreamId,
    /// Offset of the data in the stream.
    pub offset: u64,
    /// Maximum distance between `offset` and the end of the data that the peer has without a gap.
    pub distance: u64,
}

/// Packet number of a packet to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNumber {
    /// Full packet number.
    pub pn: u64,
    /// Number of packet numbers up to `pn` that the peer may not have received
    /// ([`unacked_numbers`](crate::unacked_numbers)).
    pub unacked: u64,
    /// Stream and offset of the packet's data, for formats that announce them.
    pub announced: Option<Announced>,
}

/// Fields of an Initial, 0-RTT or Handshake header to write.
#[derive(Clone, Copy, Debug)]
pub struct NewLong<'a> {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Destination connection ID.
    pub dcid: &'a ConnectionId,
    /// Source connection ID.
    pub scid: &'a ConnectionId,
    /// Token, for Initial packets only.
    pub token: &'a [u8],
    /// Packet number. Only 0-RTT packets may announce a stream position.
    pub number: NewNumber,
    /// `false` only if the peer permits greasing of the fixed bit (RFC 9287).
    pub fixed_bit: bool,
}

/// Fields of a 1-RTT header to write.
#[derive(Clone, Copy, Debug)]
pub struct NewShort<'a> {
    /// Destination connection ID.
    pub dcid: &'a ConnectionId,
    /// Spin bit.
    pub spin: bool,
    /// Key phase bit.
    pub key_phase: bool,
    /// Packet number.
    pub number: NewNumber,
    /// `false` only if the peer permits greasing of the fixed bit (RFC 9287).
    pub fixed_bit: bool,
}

/// Fields that header protection covers. They are not authenticated until the packet is decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmasked {
    /// Length of the packet number, in bytes.
    pub pn_len: usize,
    /// Low bits of the packet number, for [`decode_packet_number`](crate::decode_packet_number).
    pub truncated_pn: u64,
    /// Number of bits in `truncated_pn`.
    pub pn_bits: u32,
    /// Start of the ciphertext. All bytes before it are associated data.
    pub header_len: usize,
    /// Key phase bit of a short header.
    pub key_phase: bool,
    /// `true` if the reserved bits are 0. A packet that decrypts but has other reserved bits is a
    /// PROTOCOL_VIOLATION (RFC 9000 §17.2, §17.3.1).
    pub reserved_ok: bool,
    /// Spin bit of a short header.
    pub spin: bool,
    /// Stream position of the packet's data, for formats that announce it.
    pub placement: Option<Placement>,
}

/// Received stream position of a packet's data: the stream, and the low bits of the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// ID of the stream.
    pub stream: StreamId,
    /// Low bits of the offset.
    pub offset_low: u64,
    /// Number of bits in `offset_low`.
    pub offset_bits: u32,
}

impl Placement {
    /// Returns the full offset that is closest to `expected`, the end of the stream's data received without a
    /// gap. The result is correct unless the data is far from `expected`.
    #[inline]
    pub const fn offset(&self, expected: u64) -> u64 {
        decode_packet_number(expected.checked_sub(1), self.offset_low, self.offset_bits)
    }

    /// Returns whether the header announced this stream and the low bits of this offset.
    #[inline]
    pub fn matches(&self, stream: StreamId, offset: u64) -> bool {
        self.stream == stream && self.offset_low == offset & ((1 << self.offset_bits) - 1)
    }
}
