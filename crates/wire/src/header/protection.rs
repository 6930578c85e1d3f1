//! Taking header protection off (RFC 9001 §5.4).

use super::{LONG, PacketKind, decode_packet_number};
use crate::StreamId;
use crate::version::{Format, Front};

/// Bytes of ciphertext from which a mask is made (RFC 9001 §5.4.2).
pub const SAMPLE_LEN: usize = 16;

/// Bits of an unmasked first byte.
pub(super) const SPIN: u8 = 0x20;
pub(super) const KEY_PHASE: u8 = 0x04;
const PN_LEN: u8 = 0x03;
const LONG_RESERVED: u8 = 0x0c;
const SHORT_RESERVED: u8 = 0x18;
/// Bits of the first byte that protection covers.
const LONG_PROTECTED: u8 = 0x0f;
const SHORT_PROTECTED: u8 = 0x1f;

/// What header protection hid. None of it is authentic before the packet is decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmasked {
    /// Bytes of the packet number.
    pub pn_len: usize,
    /// The packet number's low bits, for [`decode_packet_number`](crate::decode_packet_number).
    pub truncated_pn: u64,
    /// How many those are.
    pub pn_bits: u32,
    /// Where the ciphertext starts: all before it is associated data.
    pub header_len: usize,
    /// The key phase bit of a short header.
    pub key_phase: bool,
    /// Whether the reserved bits are 0; if not and the packet decrypts, PROTOCOL_VIOLATION (RFC 9000 §17.2, §17.3.1).
    pub reserved_ok: bool,
    /// The spin bit of a short header.
    pub spin: bool,
    /// Where the packet's stream data belongs, in formats whose header tells.
    pub placement: Option<Placement>,
}

/// Stream and low bits of the offset of a packet's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The stream.
    pub stream: StreamId,
    /// Low bits of the offset.
    pub offset_low: u64,
    /// How many those are.
    pub offset_bits: u32,
}

impl Placement {
    /// The offset, given the end of what the stream has without a gap: right unless the data is far from there.
    #[inline]
    pub const fn offset(&self, expected: u64) -> u64 {
        decode_packet_number(expected.checked_sub(1), self.offset_low, self.offset_bits)
    }

    /// Whether `offset` of `stream` is what was announced, as far as the header tells.
    #[inline]
    pub fn matches(&self, stream: StreamId, offset: u64) -> bool {
        self.stream == stream && self.offset_low == offset & ((1 << self.offset_bits) - 1)
    }
}

/// The bits of the first byte that are masked, given the long-header bit of `first`, which never is.
#[inline]
pub(super) const fn protected_bits(first: u8) -> u8 {
    if first & LONG != 0 { LONG_PROTECTED } else { SHORT_PROTECTED }
}

impl Format {
    /// Where the sample for the mask starts, from the packet number's start: after the longest number field.
    #[inline]
    pub fn sample_offset(&self, kind: PacketKind) -> usize {
        self.number(kind).sample_offset
    }

    /// Bytes of mask that packets of this kind need.
    #[inline]
    pub fn mask_len(&self, kind: PacketKind) -> usize {
        self.number(kind).mask_len
    }

    /// The sample of `packet`; `None` if it is too short to have one, and then it is to be dropped.
    #[inline]
    pub fn sample(&self, packet: &[u8], kind: PacketKind, pn_offset: usize) -> Option<[u8; SAMPLE_LEN]> {
        packet.get(pn_offset + self.sample_offset(kind)..)?.first_chunk().copied()
    }

    /// Takes the mask off `packet`, which starts with the packet's first byte and was long enough for a sample.
    #[inline]
    pub fn unmask(&self, packet: &mut [u8], kind: PacketKind, pn_offset: usize, mask: &[u8; 16]) -> Unmasked {
        let (header, field) = packet.split_at_mut(pn_offset);
        header[0] ^= mask[0] & protected_bits(header[0]);
        let first = header[0];
        (self.number(kind).unmask)(Front { first, len: pn_offset }, field, mask)
    }
}

impl Front {
    /// Bytes of the packet number.
    #[inline]
    pub(crate) const fn pn_len(self) -> usize {
        (self.first & PN_LEN) as usize + 1
    }

    /// With a number field of `len` bytes, which says this.
    #[inline]
    pub(crate) const fn unmasked(
        self,
        len: usize,
        truncated_pn: u64,
        pn_bits: u32,
        placement: Option<Placement>,
    ) -> Unmasked {
        let long = self.first & LONG != 0;
        Unmasked {
            pn_len: self.pn_len(),
            truncated_pn,
            pn_bits,
            header_len: self.len + len,
            key_phase: !long && self.first & KEY_PHASE != 0,
            reserved_ok: self.first & if long { LONG_RESERVED } else { SHORT_RESERVED } == 0,
            spin: !long && self.first & SPIN != 0,
            placement,
        }
    }
}
