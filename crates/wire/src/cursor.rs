//! Cursors over a packet's payload: one listing of a frame's fields serves both directions.

use crate::varint::{MAX_VARINT, varint_len};

/// From which end the fields of a frame are read. A wire format has one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Front to back (RFC 9000).
    Forward,
    /// Back to front (VReverso): the type is a frame's last byte. Byte strings are not reversed.
    Backward,
}

/// The input ends inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The output has no room for the whole frame; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Takes fields off one end of a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
    direction: Direction,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` in `direction`.
    #[inline]
    pub const fn new(bytes: &'a [u8], direction: Direction) -> Self {
        Self { rest: bytes, direction }
    }

    /// Returns whether everything has been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of bytes not yet read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the direction of reading.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the bytes not yet read, without reading them.
    #[inline]
    pub const fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `len` bytes, in memory order.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = match self.direction {
            Direction::Forward => self.rest.split_at_checked(len).ok_or(Malformed)?,
            Direction::Backward => {
                let start = self.rest.len().checked_sub(len).ok_or(Malformed)?;
                let (rest, taken) = self.rest.split_at(start);
                (taken, rest)
            }
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Reads the next `N` bytes, in memory order.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = match self.direction {
            Direction::Forward => self.rest.split_first_chunk().ok_or(Malformed)?,
            Direction::Backward => {
                let (rest, taken) = self.rest.split_last_chunk().ok_or(Malformed)?;
                (taken, rest)
            }
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads all that is left, in memory order.
    #[inline]
    pub const fn rest(&mut self) -> &'a [u8] {
        let all = self.rest;
        self.rest = &[];
        all
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads two bytes, big endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes, big endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes, big endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a varint of any length (RFC 9000 §16); backward ones keep their length in the two low bits of
    /// the last byte.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        self.varint_here()
    }

    /// Reads a varint in a direction that is known at compile time.
    #[inline(always)]
    pub(crate) fn varint_here(&mut self) -> Result<u64, Malformed> {
        match self.direction {
            Direction::Forward => {
                let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
                let log2_len = first >> 6;
                // Most numbers are small.
                if log2_len == 0 {
                    self.rest = rest;
                    return Ok(u64::from(*first));
                }
                Ok(self.integer(log2_len)? & (u64::MAX >> (66 - (8 << log2_len))))
            }
            Direction::Backward => {
                let log2_len = self.rest.last().ok_or(Malformed)? & 0b11;
                // Read at once, the bytes need no branch on how many there are.
                if let Some(wide) = self.rest.last_chunk() {
                    let len = 1 << log2_len;
                    self.bytes(len)?;
                    return Ok((u64::from_be_bytes(*wide) & u64::MAX >> (64 - 8 * len)) >> 2);
                }
                let (value, rest) = short_backward(self.rest, log2_len)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    #[inline]
    fn integer(&mut self, log2_len: u8) -> Result<u64, Malformed> {
        match log2_len {
            0 => self.u8().map(u64::from),
            1 => self.u16().map(u64::from),
            2 => self.u32().map(u64::from),
            _ => self.u64(),
        }
    }

    /// Reads the run of zero bytes that comes next, its length in bytes.
    #[inline]
    pub(crate) fn zeros(&mut self) -> usize {
        let run = match self.direction {
            Direction::Forward => self.rest.iter().take_while(|&&byte| byte == 0).count(),
            Direction::Backward => self.rest.iter().rev().take_while(|&&byte| byte == 0).count(),
        };
        // A run is never longer than what is left.
        let _ = self.bytes(run);
        run
    }
}

/// Reads the backward varint at the end of `bytes`, which are fewer than eight, and returns the bytes before
/// it.
#[inline(never)]
fn short_backward(bytes: &[u8], log2_len: u8) -> Result<(u64, &[u8]), Malformed> {
    let mut reader = Reader::new(bytes, Direction::Backward);
    let value = reader.integer(log2_len)? >> 2;
    Ok((value, reader.rest()))
}

/// Appends frames to a packet's payload.
///
/// Frames stand in memory in the order they were written, in both directions: a backward reader meets the
/// last one first.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    /// Bytes at the end that are not to be written to.
    aside: usize,
    direction: Direction,
}

impl<'a> Writer<'a> {
    /// Writes to the front of `buf`, whose length is the limit.
    #[inline]
    pub const fn new(buf: &'a mut [u8], direction: Direction) -> Self {
        Self { buf, len: 0, aside: 0, direction }
    }

    /// Returns the number of bytes written.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing has been written.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that still fit.
    #[inline]
    pub const fn remaining(&self) -> usize {
        (self.buf.len() - self.len).saturating_sub(self.aside)
    }

    /// Returns the direction of the frames' fields.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Appends PADDING until `len` bytes are written, or the buffer is full.
    #[inline]
    pub fn pad_to(&mut self, len: usize) {
        let end = len.min(self.buf.len());
        if let Some(padding) = self.buf.get_mut(self.len..end) {
            padding.fill(0);
            self.len = end;
        }
    }

    /// Moves all that was written after the first `before` bytes in front of those.
    #[inline]
    pub fn lead(&mut self, before: usize) {
        self.buf[..self.len].rotate_left(before);
    }

    /// Keeps the last `bytes` of the buffer free from now on.
    #[inline]
    pub const fn set_aside(&mut self, bytes: usize) {
        self.aside = bytes;
    }

    /// Returns the written bytes.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Returns the written bytes for as long as the buffer lives.
    #[inline]
    pub fn into_written(self) -> &'a mut [u8] {
        &mut self.buf[..self.len]
    }

    /// Returns room for a frame of exactly `size` bytes.
    #[inline]
    pub(crate) fn region(&mut self, size: usize) -> Result<Region<'_>, Full> {
        if size > self.remaining() {
            return Err(Full);
        }
        let free = &mut self.buf[self.len..self.len + size];
        self.len += size;
        Ok(Region { free, direction: self.direction })
    }
}

/// The place of one frame, whose size was computed before: fields fill it from one end to exactly the other.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    free: &'a mut [u8],
    direction: Direction,
}

impl<'a> Region<'a> {
    /// Returns the next `len` bytes, to be filled in memory order.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> &'a mut [u8] {
        let free = core::mem::take(&mut self.free);
        let (taken, rest) = match self.direction {
            Direction::Forward => free.split_at_mut(len),
            Direction::Backward => {
                let (rest, taken) = free.split_at_mut(free.len() - len);
                (taken, rest)
            }
        };
        self.free = rest;
        taken
    }

    /// Writes the shortest varint of `value`.
    #[inline]
    pub(crate) fn varint(&mut self, value: u64) {
        self.varint_of(value, varint_len(value));
    }

    /// Writes a varint of `len` bytes (1, 2, 4 or 8) that `value` fits in.
    #[inline]
    pub(crate) fn varint_of(&mut self, value: u64, len: usize) {
        let value = value.min(MAX_VARINT);
        let log2_len = u64::from(len.trailing_zeros());
        let word = match self.direction {
            Direction::Forward => value | log2_len << (8 * len - 2),
            Direction::Backward => value << 2 | log2_len,
        };
        self.take(len).copy_from_slice(&word.to_be_bytes()[8 - len..]);
    }
}

#[cfg(test)]
mod tests;
