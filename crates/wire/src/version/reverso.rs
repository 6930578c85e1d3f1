//! QUIC VReverso. Frames are read from the end of a packet. The headers of data packets contain the stream
//! position of the data, so that a receiver can decrypt it directly to its destination (`docs/vreverso.md`).
//!
//! ```text
//! Packet Number (1-4) | Stream ID (1-4) | Offset (1-4)
//! ```
//! The two top bits of the packet number give the length of the stream ID. The two top bits of the stream ID
//! give the length of the offset.

use super::number::{Front, Lengths};
use super::{Format, NumberField, Version, v1};
use crate::StreamId;
use crate::cursor::Direction;
use crate::header::{Announced, NewNumber, Placement, Unmasked};

pub(super) const FORMAT: Format = Format {
    version: Version(0x0079_1097),
    direction: Direction::Backward,
    // Salt, labels, Retry keys and packet types are those of version 1.
    data_number: NumberField {
        sample_offset: MAX_FIELD,
        mask_len: 1 + MAX_FIELD,
        min_payload: MIN_PAYLOAD,
        unmask,
        write,
    },
    names_stream: true,
    ..v1::FORMAT
};

/// Maximum length of the number field, in bytes.
const MAX_FIELD: usize = 12;

/// Minimum length of the frames in a data packet, in bytes, including PADDING.
const MIN_PAYLOAD: usize = 12;

/// Minimum length of the offset in a packet with data, in bytes.
const MIN_OFFSET_LEN: usize = 2;

/// First stream ID that is too large for a header.
const STREAM_ID_END: u64 = 1 << 30;

fn unmask(front: Front, field: &mut [u8], mask: &[u8; 16]) -> Unmasked {
    let pn_len = front.pn_len();
    let (Some(field), Some((_, mask))) = (field.first_chunk_mut(), mask.split_first_chunk::<1>()) else {
        // This cannot happen, because the packet has a sample after the longest field. If it did, the
        // returned header length would exceed the packet.
        return front.unmasked(MAX_FIELD, 0, value_bits(pn_len), None);
    };
    let (masked, mask) = (Wide::of(field), Wide::of(mask.first_chunk().unwrap_or(&[0; MAX_FIELD])));
    let mut rest = Wide { high: masked.high ^ mask.high, low: masked.low ^ mask.low };
    let (stream_len, truncated_pn) = split(rest.take(pn_len), pn_len);
    let (offset_len, stream) = split(rest.take(stream_len), stream_len);
    let offset_low = rest.take(offset_len);
    let len = pn_len + stream_len + offset_len;
    // The bytes after the field are ciphertext and stay unchanged.
    let covered = &COVERED[len % COVERED.len()];
    let unmasked =
        Wide { high: masked.high ^ mask.high & covered.high, low: masked.low ^ mask.low & covered.low };
    *field = unmasked.bytes();
    let offset_bits = 8 * offset_len as u32;
    let placement = Placement { stream: StreamId::from_u64(stream), offset_low, offset_bits };
    front.unmasked(len, truncated_pn, value_bits(pn_len), if stream == 0 { None } else { Some(placement) })
}

/// Bytes of the longest field, aligned to the top of two integers.
#[derive(Clone, Copy)]
struct Wide {
    high: u64,
    low: u64,
}

impl Wide {
    fn of(bytes: &[u8; MAX_FIELD]) -> Self {
        let [a, b, c, d, e, f, g, h, low @ ..] = *bytes;
        let low = u64::from(u32::from_be_bytes(low)) << 32;
        Self { high: u64::from_be_bytes([a, b, c, d, e, f, g, h]), low }
    }

    fn bytes(self) -> [u8; MAX_FIELD] {
        let mut bytes = [0; MAX_FIELD];
        bytes[..8].copy_from_slice(&self.high.to_be_bytes());
        bytes[8..].copy_from_slice(&((self.low >> 32) as u32).to_be_bytes());
        bytes
    }

    /// Removes and returns the first `len` bytes, one to four.
    fn take(&mut self, len: usize) -> u64 {
        let bits = 8 * len;
        let value = self.high >> (64 - bits);
        self.high = self.high << bits | self.low >> (64 - bits);
        self.low <<= bits;
        value
    }
}

/// Masks that cover a number field, by the field's length. The table has more entries than there are lengths,
/// so that an index needs no bounds check.
static COVERED: [Wide; 16] = {
    let mut covered = [Wide { high: 0, low: 0 }; 16];
    let mut len = 1;
    while len <= MAX_FIELD {
        let ones = !(u128::MAX >> (8 * len));
        covered[len] = Wide { high: (ones >> 64) as u64, low: ones as u64 };
        len += 1;
    }
    covered
};

fn write(buf: &mut [u8], number: NewNumber) -> Option<Lengths> {
    let (stream, offset, offset_len) = match number.announced {
        Some(Announced { stream, offset, distance }) => (stream.as_u64(), offset, offset_len(distance)),
        None => (0, 0, 1),
    };
    if stream >= STREAM_ID_END {
        return None;
    }
    let (pn_len, stream_len) = (pn_len(number.unacked), stream_len(stream));
    let len = pn_len + stream_len + offset_len;
    let mut rest = buf.get_mut(..len)?;
    let mut put = |value: u64, bytes: usize| {
        let (field, behind) = std::mem::take(&mut rest).split_at_mut(bytes);
        field.copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
        rest = behind;
    };
    put(join(stream_len, number.pn, pn_len), pn_len);
    put(join(offset_len, stream, stream_len), stream_len);
    put(offset, offset_len);
    Some(Lengths { pn_len, len })
}

/// Returns the number of value bits in a part of the number field that is `len` bytes long. The two bits above
/// them give the length of the next part.
const fn value_bits(len: usize) -> u32 {
    8 * len as u32 - 2
}

/// Splits a part of the number field, which is `len` bytes long, into the length of the next part and the
/// value of this part.
const fn split(field: u64, len: usize) -> (usize, u64) {
    let bits = value_bits(len);
    ((field >> bits) as usize + 1, field & ((1 << bits) - 1))
}

/// Joins the length of the next part and the low bits of `value` into a part that is `len` bytes long.
const fn join(next_len: usize, value: u64, len: usize) -> u64 {
    let bits = value_bits(len);
    (next_len as u64 - 1) << bits | value & ((1 << bits) - 1)
}

/// Returns the length of a packet number in bytes. It follows RFC 9000 A.2, with two more bits for the length
/// of the stream ID.
const fn pn_len(unacked: u64) -> usize {
    let bits = u64::BITS - unacked.saturating_sub(1).leading_zeros() + 1;
    match (bits + 2).div_ceil(8) {
        bytes @ 0..=4 => bytes as usize,
        _ => 4,
    }
}

/// Returns the length of a stream ID in bytes. Stream IDs are not truncated.
const fn stream_len(stream: u64) -> usize {
    let mut len = 1;
    while stream >> value_bits(len) != 0 {
        len += 1;
    }
    len
}

/// Returns the length, in bytes, of an offset that the peer expects at most `distance` away. It is the
/// smallest length with more than `2 * distance` values, or the maximum of four bytes.
const fn offset_len(distance: u64) -> usize {
    let mut len = MIN_OFFSET_LEN;
    while len < 4 && distance >= 1 << (8 * len - 1) {
        len += 1;
    }
    len
}

#[cfg(test)]
mod tests;
