//! ACK (RFC 9000 §19.3) and PATH_ACK (RFC 10069).

use core::ops::RangeInclusive;

use super::Fault;
use super::field::Field;
use crate::cursor::{Direction, Full, Reader, Region, Writer};
use crate::varint::varint_len;
use crate::{EcnCounts, PathId};

/// ACK or PATH_ACK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Path of a PATH_ACK; `None` for an ACK.
    pub path: Option<PathId>,
    /// Largest acknowledged packet number.
    pub largest: u64,
    /// Time since `largest` was received, in units of 2^ack_delay_exponent microseconds (the sender's
    /// exponent).
    pub delay: u64,
    /// Total numbers of received packets by ECN codepoint.
    pub ecn: Option<EcnCounts>,
    pub(super) blocks: Blocks<'a>,
}

impl<'a> Ack<'a> {
    /// Returns the acknowledged ranges, largest first. Between two ranges there is at least one packet number
    /// that is not acknowledged.
    #[inline]
    pub fn ranges(&self) -> AckRanges<'a> {
        let Blocks { first, rest, direction, .. } = self.blocks;
        let start = self.largest.saturating_sub(first);
        AckRanges { next: Some(start..=self.largest), rest: Reader::new(rest, direction) }
    }

    /// Returns the number of ranges.
    #[inline]
    pub fn range_count(&self) -> u64 {
        self.blocks.count + 1
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), Fault> {
        // RFC 9000 §19.3.1: a computed packet number below 0 is an error.
        super::require(self.blocks.span <= self.largest, "acknowledged packet number below 0")
    }
}

/// Iterator over the ranges of an [`Ack`].
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    rest: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next.take()?;
        if let (Ok(gap), Ok(len)) = (self.rest.varint(), self.rest.varint()) {
            // The whole frame was checked before, so the subtraction never saturates. It only avoids a panic
            // path.
            let end = range.start().saturating_sub(gap + 2);
            self.next = Some(end.saturating_sub(len)..=end);
        }
        Some(range)
    }
}

/// ACK Range Count, First ACK Range and the ACK Ranges, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks<'a> {
    /// Number of pairs in `rest`.
    count: u64,
    first: u64,
    /// Encoded pairs of gap and range length.
    rest: &'a [u8],
    direction: Direction,
    /// Distance from the largest to the smallest acknowledged packet number.
    span: u64,
}

impl<'a> Field<'a> for Blocks<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let (count, first) = (reader.varint()?, reader.varint()?);
        let mut pairs = *reader;
        let mut span = first;
        // A pair takes at least two bytes, so the packet's size bounds the loop.
        for _ in 0..count {
            let (gap, len) = (pairs.varint()?, pairs.varint()?);
            span = span.saturating_add(gap + 2 + len);
        }
        let rest = reader.bytes(reader.remaining() - pairs.remaining())?;
        Ok(Self { count, first, rest, direction: reader.direction(), span })
    }

    fn size(self) -> usize {
        varint_len(self.count) + varint_len(self.first) + self.integers().map(varint_len).sum::<usize>()
    }

    fn write(self, region: &mut Region<'_>) {
        region.varint(self.count);
        region.varint(self.first);
        self.integers().for_each(|value| region.varint(value));
    }
}

impl Blocks<'_> {
    /// Returns the gaps and range lengths, alternately.
    fn integers(self) -> impl Iterator<Item = u64> {
        let mut reader = Reader::new(self.rest, self.direction);
        core::iter::from_fn(move || reader.varint().ok())
    }
}

/// Writes an ACK, or a PATH_ACK if `path` is given, with as many `ranges` as fit. Returns their number.
///
/// `ranges` must be in descending order, with at least one packet number between two of them. If there are
/// none, nothing is written.
pub fn write_ack(
    writer: &mut Writer<'_>,
    path: Option<PathId>,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    delay: u64,
    ecn: Option<EcnCounts>,
) -> Result<usize, Full> {
    let mut rest = ranges;
    let Some(first) = rest.next() else { return Ok(0) };
    let (largest, first_len) = (*first.end(), first.end() - first.start());
    let kind = if path.is_some() { 0x3e } else { 0x02 } | u64::from(ecn.is_some());

    let fixed = varint_len(kind)
        + path.map_or(0, Field::size)
        + varint_len(largest)
        + varint_len(delay)
        + varint_len(first_len)
        + ecn.map_or(0, Field::size);
    let (count, pairs_size) = fitting(*first.start(), rest.clone(), writer.remaining().saturating_sub(fixed));

    let mut region = writer.region(fixed + varint_len(count as u64) + pairs_size)?;
    region.varint(kind);
    if let Some(path) = path {
        path.write(&mut region);
    }
    for value in [largest, delay, count as u64, first_len] {
        region.varint(value);
    }
    for (gap, len) in pairs(*first.start(), rest).take(count) {
        region.varint(gap);
        region.varint(len);
    }
    if let Some(ecn) = ecn {
        ecn.write(&mut region);
    }
    Ok(count + 1)
}

/// Returns the number of ranges below `smallest` that fit into `room` bytes together with the ACK Range
/// Count, and their encoded size in bytes.
fn fitting(smallest: u64, ranges: impl Iterator<Item = RangeInclusive<u64>>, room: usize) -> (usize, usize) {
    let (mut count, mut size) = (0, 0);
    for (gap, len) in pairs(smallest, ranges) {
        let grown = size + varint_len(gap) + varint_len(len);
        if grown + varint_len(count as u64 + 1) > room {
            break;
        }
        (count, size) = (count + 1, grown);
    }
    (count, size)
}

/// Returns gap and length of each range below `smallest`.
fn pairs(
    mut smallest: u64,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
) -> impl Iterator<Item = (u64, u64)> {
    ranges.map(move |range| {
        debug_assert!(
            range.start() <= range.end() && *range.end() + 1 < smallest,
            "ranges descend and do not touch"
        );
        let gap = smallest.saturating_sub(range.end() + 2);
        smallest = *range.start();
        (gap, range.end() - range.start())
    })
}
