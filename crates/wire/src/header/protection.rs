//! Removal of header protection (RFC 9001 §5.4).

use super::{LONG, PacketKind, Placement, Unmasked};
use crate::version::{Format, Front};

/// Length of the ciphertext sample for a mask, in bytes (RFC 9001 §5.4.2).
pub const SAMPLE_LEN: usize = 16;

/// Bits of an unmasked first byte.
pub(super) const SPIN: u8 = 0x20;
pub(super) const KEY_PHASE: u8 = 0x04;
const PN_LEN: u8 = 0x03;
const LONG_RESERVED: u8 = 0x0c;
const SHORT_RESERVED: u8 = 0x18;
/// Bits of the first byte that header protection covers.
const LONG_PROTECTED: u8 = 0x0f;
const SHORT_PROTECTED: u8 = 0x1f;

/// Returns the protected bits of the first byte `first`. They depend on its long-header bit, which is never
/// protected.
#[inline]
pub(super) const fn protected_bits(first: u8) -> u8 {
    if first & LONG != 0 { LONG_PROTECTED } else { SHORT_PROTECTED }
}

impl Format {
    /// Returns the distance from the start of the packet number to the sample: the length of the longest
    /// number field.
    #[inline]
    pub fn sample_offset(&self, kind: PacketKind) -> usize {
        self.number(kind).sample_offset
    }

    /// Returns the length of the mask that packets of this kind need, in bytes.
    #[inline]
    pub fn mask_len(&self, kind: PacketKind) -> usize {
        self.number(kind).mask_len
    }

    /// Returns the sample of `packet`. Returns `None` if the packet is too short for one; it must then be
    /// discarded.
    #[inline]
    pub fn sample(&self, packet: &[u8], kind: PacketKind, pn_offset: usize) -> Option<[u8; SAMPLE_LEN]> {
        packet.get(pn_offset + self.sample_offset(kind)..)?.first_chunk().copied()
    }

    /// Removes the mask from `packet`, which starts with the first byte of the header and must have been long
    /// enough for a sample.
    #[inline]
    pub fn unmask(&self, packet: &mut [u8], kind: PacketKind, pn_offset: usize, mask: &[u8; 16]) -> Unmasked {
        let (header, field) = packet.split_at_mut(pn_offset);
        header[0] ^= mask[0] & protected_bits(header[0]);
        let first = header[0];
        (self.number(kind).unmask)(Front { first, len: pn_offset }, field, mask)
    }
}

impl Front {
    /// Returns the length of the packet number, in bytes.
    #[inline]
    pub(crate) const fn pn_len(self) -> usize {
        (self.first & PN_LEN) as usize + 1
    }

    /// Creates the unprotected fields of a header whose number field has `len` bytes and this content.
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
