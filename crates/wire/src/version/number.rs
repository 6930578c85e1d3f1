//! Number field: the part of the header after the first byte that header protection covers. It contains the
//! packet number, and in some formats more.

use crate::header::{NewNumber, Unmasked, packet_number_len};

/// Format of the number field, which follows the destination connection ID or the Length.
#[derive(Debug)]
pub(crate) struct NumberField {
    /// Distance from the start of the field to the start of the sample, in bytes.
    pub(crate) sample_offset: usize,
    /// Length of the mask in bytes: one byte for the packet's first byte, and the others for the longest
    /// field.
    pub(crate) mask_len: usize,
    /// Minimum length of the frames in a packet, in bytes, regardless of the field's length.
    pub(crate) min_payload: usize,
    /// Removes the mask from the front of `field` and parses the field. The mask's first byte is for the
    /// first byte of the header and is skipped.
    pub(crate) unmask: fn(front: Front, field: &mut [u8], mask: &[u8; 16]) -> Unmasked,
    /// Writes the field to the front of `buf`; `None` if it does not fit.
    pub(crate) write: fn(buf: &mut [u8], number: NewNumber) -> Option<Lengths>,
}

/// Header before the number field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// First byte of the packet, unmasked.
    pub(crate) first: u8,
    /// Length of the header before the field, in bytes.
    pub(crate) len: usize,
}

/// Lengths of a number field and of its packet number, in bytes.
#[derive(Debug)]
pub(crate) struct Lengths {
    pub(crate) pn_len: usize,
    /// Length of the whole field.
    pub(crate) len: usize,
}

impl NumberField {
    /// Field that contains only a packet number (RFC 9000 §17.1, RFC 9001 §5.4).
    pub(crate) const PLAIN: Self =
        Self { sample_offset: 4, mask_len: 5, min_payload: 0, unmask: unmask_plain, write: write_plain };
}

fn unmask_plain(front: Front, field: &mut [u8], mask: &[u8; 16]) -> Unmasked {
    let pn_len = front.pn_len();
    let mut truncated_pn = 0;
    for (byte, mask) in field.iter_mut().zip(&mask[1..]).take(pn_len) {
        *byte ^= mask;
        truncated_pn = truncated_pn << 8 | u64::from(*byte);
    }
    front.unmasked(pn_len, truncated_pn, 8 * pn_len as u32, None)
}

fn write_plain(buf: &mut [u8], number: NewNumber) -> Option<Lengths> {
    let pn_len = packet_number_len(number.unacked);
    buf.get_mut(..pn_len)?.copy_from_slice(&number.pn.to_be_bytes()[8 - pn_len..]);
    Some(Lengths { pn_len, len: pn_len })
}
