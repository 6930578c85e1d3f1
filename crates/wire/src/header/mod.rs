//! Packet headers (RFC 8999, RFC 9000 §17): splitting of datagrams into packets, and parsing of the
//! unprotected fields.

mod fields;
mod kind;
mod negotiation;
mod outgoing;
mod packet_number;
mod protection;

pub use fields::{Announced, NewLong, NewNumber, NewShort, Placement, Unmasked};
pub use kind::PacketKind;
pub use negotiation::{MAX_OFFERED_VERSIONS, offered_versions, write_retry, write_version_negotiation};
pub use outgoing::{MAX_LONG_LENGTH, Outgoing};
pub use packet_number::{decode_packet_number, packet_number_len, unacked_numbers};
pub use protection::SAMPLE_LEN;

use core::ops::Range;

use crate::ConnectionId;
use crate::cursor::{Direction, Malformed, Reader};
use crate::version::Version;

/// Bits of the first byte.
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;

/// Length of the integrity tag at the end of a Retry packet, in bytes (RFC 9001 §5.8).
pub const RETRY_TAG_LEN: usize = 16;

/// Packet of a datagram before header protection is removed. Offsets count from the packet's first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protected {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Version in a long header.
    pub version: Option<Version>,
    /// Destination connection ID.
    pub dcid: ConnectionId,
    /// Source connection ID; empty for a short header.
    pub scid: ConnectionId,
    /// Token of an Initial or Retry packet; empty for others.
    pub token: Range<usize>,
    /// Start of the protected packet number, of the token in a Retry packet, or of the versions in a Version
    /// Negotiation packet.
    pub pn_offset: usize,
    /// End of the packet, where the datagram's next packet starts.
    pub end: usize,
    /// Fixed bit, which is 1 unless the peer may grease it (RFC 9287).
    pub fixed_bit: bool,
}

/// Reason that a packet cannot be parsed. Nothing in it is authenticated. The receiver discards it with the
/// rest of the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header is truncated or invalid.
    Malformed,
    /// The long header has an unsupported version (RFC 9000 §5.2.2). Its connection IDs may be longer than a
    /// [`ConnectionId`].
    UnknownVersion {
        /// Version in the header.
        version: Version,
        /// Position of the destination connection ID.
        dcid: Range<usize>,
        /// Position of the source connection ID.
        scid: Range<usize>,
    },
}

impl From<Malformed> for HeaderError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Fields of a short header that can be read before header protection is removed (RFC 9000 §17.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader<'a> {
    /// Destination connection ID.
    pub dcid: &'a [u8],
    /// Start of the protected packet number.
    pub pn_offset: usize,
    /// Fixed bit, which is 1 unless the peer may grease it (RFC 9287).
    pub fixed_bit: bool,
}

impl<'a> ShortHeader<'a> {
    /// Returns whether `datagram` begins with a short header.
    #[inline]
    pub fn leads(datagram: &[u8]) -> bool {
        datagram.first().is_some_and(|first| first & LONG == 0)
    }

    /// Parses the short header of `packet`, whose connection ID has `cid_len` bytes. Returns `None` if the
    /// header is long or truncated.
    #[inline]
    pub fn read(packet: &'a [u8], cid_len: usize) -> Option<Self> {
        let first = *packet.first().filter(|first| **first & LONG == 0)?;
        let pn_offset = 1 + cid_len;
        Some(Self { dcid: packet.get(1..pn_offset)?, pn_offset, fixed_bit: first & FIXED != 0 })
    }
}

/// Parses the header of the first packet of `datagram`. Short headers have connection IDs of `short_cid_len`
/// bytes.
///
/// The next coalesced packet starts at [`Protected::end`] (RFC 9000 §12.2).
#[inline]
pub fn parse_packet(datagram: &[u8], short_cid_len: usize) -> Result<Protected, HeaderError> {
    let first = *datagram.first().ok_or(HeaderError::Malformed)?;
    if first & LONG != 0 {
        return parse_long(datagram, first);
    }
    let header = ShortHeader::read(datagram, short_cid_len).ok_or(HeaderError::Malformed)?;
    Ok(Protected {
        kind: PacketKind::OneRtt,
        version: None,
        dcid: ConnectionId::new(header.dcid).ok_or(HeaderError::Malformed)?,
        scid: ConnectionId::EMPTY,
        token: 0..0,
        pn_offset: header.pn_offset,
        end: datagram.len(),
        fixed_bit: header.fixed_bit,
    })
}

/// Reads `len` bytes, and returns their range in a packet of `total` bytes.
fn take_range(reader: &mut Reader<'_>, total: usize, len: usize) -> Result<Range<usize>, Malformed> {
    let start = total - reader.remaining();
    reader.bytes(len)?;
    Ok(start..start + len)
}

fn parse_long(datagram: &[u8], first: u8) -> Result<Protected, HeaderError> {
    let total = datagram.len();
    let mut reader = Reader::new(&datagram[1..], Direction::Forward);
    let version = Version(reader.u32()?);
    let dcid_len = reader.u8()?;
    let dcid = take_range(&mut reader, total, dcid_len.into())?;
    let scid_len = reader.u8()?;
    let scid = take_range(&mut reader, total, scid_len.into())?;

    let kind = match version.format() {
        Some(format) => format.long_types[usize::from(first >> 4 & 0b11)],
        None if version == Version::NEGOTIATION => PacketKind::VersionNegotiation,
        None => return Err(HeaderError::UnknownVersion { version, dcid, scid }),
    };
    // RFC 9000 §17.2: packets with longer IDs are dropped. A Version Negotiation packet repeats our own IDs,
    // which are never longer.
    let (Some(dcid), Some(scid)) = (ConnectionId::new(&datagram[dcid]), ConnectionId::new(&datagram[scid]))
    else {
        return Err(HeaderError::Malformed);
    };

    let start = total - reader.remaining();
    let (token, pn_offset, end) = match kind {
        PacketKind::Retry => {
            // RFC 9000 §17.2.5.2: a Retry packet with an empty token is discarded.
            let end =
                total.checked_sub(RETRY_TAG_LEN).filter(|&end| end > start).ok_or(HeaderError::Malformed)?;
            (start..end, start, total)
        }
        PacketKind::VersionNegotiation => (0..0, start, total),
        _ => {
            let token = if kind == PacketKind::Initial {
                let len = length(&mut reader)?;
                take_range(&mut reader, total, len)?
            } else {
                0..0
            };
            let len = length(&mut reader)?;
            let payload = take_range(&mut reader, total, len)?;
            (token, payload.start, payload.end)
        }
    };
    Ok(Protected {
        kind,
        version: Some(version),
        dcid,
        scid,
        token,
        pn_offset,
        end,
        fixed_bit: first & FIXED != 0,
    })
}

fn length(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    usize::try_from(reader.varint()?).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
