//! Field that header protection covers after the first byte: the packet number, and in some formats more.

use crate::header::{NewNumber, Unmasked, packet_number_len};

/// Reads and writes the protected field that follows the destination connection ID or the Length.
#[derive(Debug)]
pub(crate) struct NumberField {
    /// Start of the sample, from the start of the field.
    pub(crate) sample_offset: usize,
    /// Bytes of mask: one for the first byte, the others for the longest field.
    pub(crate) mask_len: usize,
    /// Bytes of frames that a packet has at least, however long the field is.
    pub(crate) min_payload: usize,
    /// Takes the mask, whose first byte has been used, off the front of `field`.
    pub(crate) unmask: fn(front: Front, field: &mut [u8], mask: &[u8; 16]) -> Unmasked,
    /// Writes the field to the front of `buf`; `None` if it does not fit.
    pub(crate) write: fn(buf: &mut [u8], number: NewNumber) -> Option<Lengths>,
}

/// Bytes before a number field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// The packet's first byte, unmasked.
    pub(crate) first: u8,
    /// Start of the field.
    pub(crate) len: usize,
}

/// Lengths of a number field's parts.
#[derive(Debug)]
pub(crate) struct Lengths {
    pub(crate) pn_len: usize,
    /// Bytes of the whole field.
    pub(crate) len: usize,
}

impl NumberField {
    /// A packet number alone (RFC 9000 §17.1, RFC 9001 §5.4).
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
