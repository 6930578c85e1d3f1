//! Fields of headers that have been read, or are to be written.

use super::{PacketKind, decode_packet_number};
use crate::{ConnectionId, StreamId};

/// Stream position of a packet's data, for formats whose headers have it
/// ([`Format::names_stream`](crate::Format::names_stream)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The stream.
    pub stream: StreamId,
    /// The data's offset in it.
    pub offset: u64,
    /// Maximum distance from `offset` to the end of the peer's data without a gap.
    pub distance: u64,
}

/// Packet number of a packet that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNumber {
    /// The packet number.
    pub pn: u64,
    /// Distance to the numbers that the peer knows ([`unacked_numbers`](crate::unacked_numbers)).
    pub unacked: u64,
    /// Stream and offset of the packet's data, for formats that name streams.
    pub announced: Option<Announced>,
}

/// Fields of an Initial, 0-RTT or Handshake header that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewLong<'a> {
    /// The packet's kind.
    pub kind: PacketKind,
    /// Destination connection ID.
    pub dcid: &'a ConnectionId,
    /// Source connection ID.
    pub scid: &'a ConnectionId,
    /// Token; for Initial packets only.
    pub token: &'a [u8],
    /// The packet number; announces stream data in 0-RTT packets only.
    pub number: NewNumber,
    /// `true` unless the peer allows greasing the fixed bit (RFC 9287).
    pub fixed_bit: bool,
}

/// Fields of a 1-RTT header that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewShort<'a> {
    /// Destination connection ID.
    pub dcid: &'a ConnectionId,
    /// The spin bit.
    pub spin: bool,
    /// The key phase bit.
    pub key_phase: bool,
    /// The packet number.
    pub number: NewNumber,
    /// `true` unless the peer allows greasing the fixed bit (RFC 9287).
    pub fixed_bit: bool,
}

/// Fields under header protection. None of them is authentic before the packet is decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmasked {
    /// Bytes of the packet number.
    pub pn_len: usize,
    /// The packet number's low bits, for [`decode_packet_number`](crate::decode_packet_number).
    pub truncated_pn: u64,
    /// Number of these bits.
    pub pn_bits: u32,
    /// Start of the ciphertext: all before it is associated data.
    pub header_len: usize,
    /// The key phase bit of a short header.
    pub key_phase: bool,
    /// `true` if the reserved bits are 0; if not and the packet decrypts, PROTOCOL_VIOLATION (RFC 9000 §17.2,
    /// §17.3.1).
    pub reserved_ok: bool,
    /// The spin bit of a short header.
    pub spin: bool,
    /// Stream position of the packet's data, in formats whose header has it.
    pub placement: Option<Placement>,
}

/// Stream and low bits of the offset of a packet's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The stream.
    pub stream: StreamId,
    /// Low bits of the offset.
    pub offset_low: u64,
    /// Number of these bits.
    pub offset_bits: u32,
}

impl Placement {
    /// Returns the offset, given the end of what the stream has without a gap: right unless the data is far
    /// from there.
    #[inline]
    pub const fn offset(&self, expected: u64) -> u64 {
        decode_packet_number(expected.checked_sub(1), self.offset_low, self.offset_bits)
    }

    /// Returns whether `offset` of `stream` is what was announced, as far as the header tells.
    #[inline]
    pub fn matches(&self, stream: StreamId, offset: u64) -> bool {
        self.stream == stream && self.offset_low == offset & ((1 << self.offset_bits) - 1)
    }
}
