//! Writing of headers of protected packets (RFC 9000 §17.2, §17.3), and their header protection (RFC 9001
//! §5.4).

use super::protection::{KEY_PHASE, SPIN, protected_bits};
use super::{FIXED, LONG, NewLong, NewNumber, NewShort, PacketKind};
use crate::ConnectionId;
use crate::varint::varint_len;
use crate::version::{Format, NumberField};

/// Maximum value of a written Length field, in bytes: packet number, payload and tag.
pub const MAX_LONG_LENGTH: usize = 0x3fff;

/// Size of a written Length field in bytes, regardless of its value.
const LENGTH_LEN: usize = 2;

/// Positions in a packet that is being written. Offsets count from the packet's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Start of the packet number.
    pub pn_offset: usize,
    /// Length of the packet number, in bytes.
    pub pn_len: usize,
    /// Start of the payload. All bytes before it are associated data.
    pub header_len: usize,
}

/// Writer of a header to the front of a slice. Its functions return `None` if the slice is full.
struct Head<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl Head<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.buf.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    #[inline]
    fn put_cid(&mut self, cid: &ConnectionId) -> Option<()> {
        self.put(&[cid.len() as u8])?;
        self.put(cid)
    }

    /// Writes the number field, and the length of the packet number into the first byte.
    #[inline]
    fn finish(self, kind: PacketKind, field: &NumberField, number: NewNumber) -> Option<Outgoing> {
        let (pn_offset, buf) = (self.len, self.buf);
        let lengths = (field.write)(&mut buf[pn_offset..], number)?;
        buf[0] |= lengths.pn_len as u8 - 1;
        Some(Outgoing { kind, pn_offset, pn_len: lengths.pn_len, header_len: pn_offset + lengths.len })
    }
}

impl Format {
    /// Writes a long header, in which [`set_length`](Self::set_length) sets the Length field later. Returns
    /// `None` if `buf` is too short, or if packets of this kind have no such header.
    pub fn write_long(&self, buf: &mut [u8], header: &NewLong<'_>) -> Option<Outgoing> {
        let NewLong { kind, dcid, scid, token, number, fixed_bit } = *header;
        let mut head = Head { buf, len: 0 };
        head.put(&[LONG | if fixed_bit { FIXED } else { 0 } | self.long_type(kind)? << 4])?;
        head.put(&self.version.0.to_be_bytes())?;
        head.put_cid(dcid)?;
        head.put_cid(scid)?;
        if kind == PacketKind::Initial {
            let len_len = varint_len(token.len() as u64);
            let prefix = u64::from(len_len.trailing_zeros()) << (8 * len_len - 2);
            head.put(&(prefix | token.len() as u64).to_be_bytes()[8 - len_len..])?;
            head.put(token)?;
        }
        head.put(&[0; LENGTH_LEN])?;
        head.finish(kind, self.number(kind), number)
    }

    /// Writes a 1-RTT header; `None` if `buf` is too short.
    #[inline]
    pub fn write_short(&self, buf: &mut [u8], header: &NewShort<'_>) -> Option<Outgoing> {
        let NewShort { dcid, spin, key_phase, number, fixed_bit } = *header;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let mut head = Head { buf, len: 0 };
        head.put(&[bit(fixed_bit, FIXED) | bit(spin, SPIN) | bit(key_phase, KEY_PHASE)])?;
        head.put(dcid)?;
        let kind = PacketKind::OneRtt;
        head.finish(kind, self.number(kind), number)
    }

    /// Returns the minimum length of the frames after this header, in bytes. It suffices for the sample (RFC
    /// 9001 §5.4.2) and for the format's own minimum.
    #[inline]
    pub fn min_payload(&self, outgoing: &Outgoing) -> usize {
        let field = self.number(outgoing.kind);
        field.sample_offset.saturating_sub(outgoing.header_len - outgoing.pn_offset).max(field.min_payload)
    }

    /// Sets the Length of a long header to the number of bytes of `packet` after it, including the tag. They
    /// must not exceed [`MAX_LONG_LENGTH`]. Does nothing to a short header.
    pub fn set_length(&self, packet: &mut [u8], outgoing: &Outgoing) {
        if outgoing.kind == PacketKind::OneRtt {
            return;
        }
        let length = packet.len() - outgoing.pn_offset;
        debug_assert!(length <= MAX_LONG_LENGTH, "a long-header packet is at most a datagram of a handshake");
        // Varint of two bytes (RFC 9000 §16).
        let varint = 0x4000 | length as u16 & MAX_LONG_LENGTH as u16;
        packet[outgoing.pn_offset - LENGTH_LEN..outgoing.pn_offset].copy_from_slice(&varint.to_be_bytes());
    }

    /// Applies the mask of header protection to `packet`, as the last step before sending.
    #[inline]
    pub fn mask(&self, packet: &mut [u8], outgoing: &Outgoing, mask: &[u8; 16]) {
        packet[0] ^= mask[0] & protected_bits(packet[0]);
        let field = &mut packet[outgoing.pn_offset..outgoing.header_len];
        for (byte, mask) in field.iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
    }
}
