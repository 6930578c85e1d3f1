//! Frames that carry data of the application or of the handshake: STREAM (RFC 9000 §19.8), CRYPTO and
//! DATAGRAM.
//!
//! STREAM frames are always written with offset and length. This costs one byte in a stream's first frame,
//! but all frames have the same layout.

use super::Fault;
use super::field::{Field, MAX_SHORT_LEN, TOO_LONG, length_len};
use crate::StreamId;
use crate::cursor::{Full, Reader, Region, Writer};
use crate::varint::varint_len;

/// STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// ID of the stream.
    pub id: StreamId,
    /// Offset of `data` in the stream.
    pub offset: u64,
    /// `true` if the stream ends with `data`.
    pub fin: bool,
    /// Data, possibly empty.
    pub data: &'a [u8],
}

/// First type of STREAM frames. The bits below are added to it.
pub(super) const FIRST: u64 = 0x08;
const OFF: u64 = 0x04;
const LEN: u64 = 0x02;
const FIN: u64 = 0x01;
/// Last type of STREAM frames.
pub(super) const LAST: u64 = FIRST | OFF | LEN | FIN;

const CRYPTO: u64 = 0x06;
const DATAGRAM: u64 = 0x31;
/// Type of a DATAGRAM frame without a length, which extends to the end of the packet.
pub(super) const DATAGRAM_TO_THE_END: u64 = 0x30;

/// Returns the type that is written for a STREAM frame.
#[inline]
pub(super) const fn kind(fin: bool) -> u64 {
    FIRST | OFF | LEN | fin as u64
}

#[inline(always)]
pub(super) fn read<'a>(kind: u64, reader: &mut Reader<'a>) -> Result<Stream<'a>, Fault> {
    // Equivalent to reading with `Field`, but compiled for a known direction.
    let id = StreamId::from_u64(reader.varint_here()?);
    let offset = if kind & OFF != 0 { reader.varint_here()? } else { 0 };
    let data = if kind & LEN != 0 {
        let len = usize::try_from(reader.varint_here()?);
        reader.bytes(len.map_err(|_| TOO_LONG)?)?
    } else {
        reader.rest()
    };
    Ok(Stream { id, offset, fin: kind & FIN != 0, data })
}

#[inline]
pub(super) fn stream_size(id: StreamId, offset: u64, len: usize) -> usize {
    1 + id.size() + varint_len(offset) + length_len(len) + len
}

#[inline]
pub(super) fn fill_stream(
    region: &mut Region<'_>,
    id: StreamId,
    offset: u64,
    fin: bool,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) {
    region.varint(kind(fin));
    id.write(region);
    region.varint(offset);
    fill_data(region, len, fill);
}

#[inline]
fn fill_data(region: &mut Region<'_>, len: usize, fill: impl FnOnce(&mut [u8])) {
    region.varint_of(len as u64, length_len(len));
    fill(region.take(len));
}

/// Appends a STREAM frame with `len` bytes of data, which `fill` writes. Appends nothing if there is no room.
#[inline]
pub fn write_stream(
    writer: &mut Writer<'_>,
    id: StreamId,
    offset: u64,
    fin: bool,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), Full> {
    let mut region = writer.region(stream_size(id, offset, len))?;
    fill_stream(&mut region, id, offset, fin, len, fill);
    Ok(())
}

/// Returns the maximum length of data for which [`write_stream`] fits into `remaining` bytes; 0 also if no
/// frame fits.
#[inline]
pub fn max_stream_len(remaining: usize, id: StreamId, offset: u64) -> usize {
    max_data_len(remaining, 1 + id.size() + varint_len(offset))
}

/// Appends a CRYPTO frame with `len` bytes of data, which `fill` writes. Appends nothing if there is no room.
pub fn write_crypto(
    writer: &mut Writer<'_>,
    offset: u64,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), Full> {
    let mut region = writer.region(1 + varint_len(offset) + length_len(len) + len)?;
    region.varint(CRYPTO);
    region.varint(offset);
    fill_data(&mut region, len, fill);
    Ok(())
}

/// Returns the maximum length of data for which [`write_crypto`] fits into `remaining` bytes; 0 also if no
/// frame fits.
pub fn max_crypto_len(remaining: usize, offset: u64) -> usize {
    max_data_len(remaining, 1 + varint_len(offset))
}

/// Appends a DATAGRAM frame with `len` bytes of data, which `fill` writes. Appends nothing if there is no
/// room.
pub fn write_datagram(writer: &mut Writer<'_>, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), Full> {
    let mut region = writer.region(1 + length_len(len) + len)?;
    region.varint(DATAGRAM);
    fill_data(&mut region, len, fill);
    Ok(())
}

/// Returns the maximum length of data for which [`write_datagram`] fits into `remaining` bytes; `None` if not
/// even an empty frame fits.
pub fn max_datagram_len(remaining: usize) -> Option<usize> {
    (remaining > length_len(0)).then(|| max_data_len(remaining, 1))
}

/// Returns the maximum length of a byte string that fits into `remaining` bytes, together with its length
/// field and the `before` bytes that precede it.
#[inline]
fn max_data_len(remaining: usize, before: usize) -> usize {
    let room = remaining.saturating_sub(before + length_len(0));
    if room <= MAX_SHORT_LEN { room } else { MAX_SHORT_LEN.max(room - 2) }
}
