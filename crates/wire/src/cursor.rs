//! Cursors that read and write a packet's payload, front to back or back to front. Each frame can therefore
//! list its fields once for both directions.

use crate::varint::{MAX_VARINT, VarInt, varint_len};

/// Direction in which the fields of a frame are read. Each wire format has one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Front to back (RFC 9000).
    Forward,
    /// Back to front (VReverso): a frame's type is its last byte. Byte strings are not reversed.
    Backward,
}

/// Error for an input that ends inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Error for an output without room for the whole frame; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Reader of fields from one end of a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
    direction: Direction,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes` in `direction`.
    #[inline]
    pub const fn new(bytes: &'a [u8], direction: Direction) -> Self {
        Self { rest: bytes, direction }
    }

    /// Returns whether everything has been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the direction of reading.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the unread bytes without consuming them.
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

    /// Reads all remaining bytes, in memory order.
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

    /// Reads a varint, which need not have the shortest encoding (RFC 9000 §16). A backward varint has its
    /// length in the two low bits of its last byte.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        self.varint_here()
    }

    /// Reads a varint as a [`VarInt`], which can hold every varint.
    #[inline]
    pub(crate) fn var_int(&mut self) -> Result<VarInt, Malformed> {
        self.varint().map(VarInt)
    }

    /// Reads a varint. If the direction is known at compile time, inlining removes the code for the other
    /// direction.
    #[inline(always)]
    pub(crate) fn varint_here(&mut self) -> Result<u64, Malformed> {
        match self.direction {
            Direction::Forward => {
                let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
                let log2_len = first >> 6;
                // Most varints have only one byte.
                if log2_len == 0 {
                    self.rest = rest;
                    return Ok(u64::from(*first));
                }
                Ok(self.integer(log2_len)? & (u64::MAX >> (66 - (8 << log2_len))))
            }
            Direction::Backward => {
                let log2_len = self.rest.last().ok_or(Malformed)? & 0b11;
                // Eight bytes can be read at once, without a branch on the varint's length.
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

    /// Reads consecutive zero bytes, and returns their number.
    #[inline]
    pub(crate) fn zeros(&mut self) -> usize {
        let run = match self.direction {
            Direction::Forward => self.rest.iter().take_while(|&&byte| byte == 0).count(),
            Direction::Backward => self.rest.iter().rev().take_while(|&&byte| byte == 0).count(),
        };
        // Cannot fail, because the run lies within the unread bytes.
        let _ = self.bytes(run);
        run
    }
}

/// Reads the backward varint at the end of `bytes`, which has fewer than eight bytes. Returns its value and
/// the bytes before it.
#[inline(never)]
fn short_backward(bytes: &[u8], log2_len: u8) -> Result<(u64, &[u8]), Malformed> {
    let mut reader = Reader::new(bytes, Direction::Backward);
    let value = reader.integer(log2_len)? >> 2;
    Ok((value, reader.rest()))
}

/// Writer that appends frames to a packet's payload.
///
/// In both directions, frames are in memory in the order in which they were written. A backward reader
/// therefore reads the last frame first.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    /// Number of bytes at the end that must stay free.
    aside: usize,
    direction: Direction,
}

impl<'a> Writer<'a> {
    /// Creates a writer that fills `buf` from the front. The length of `buf` is the limit.
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

    /// Returns the number of bytes that can still be written.
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

    /// Moves the first `before` written bytes behind all bytes that were written later.
    #[inline]
    pub fn lead(&mut self, before: usize) {
        self.buf[..self.len].rotate_left(before);
    }

    /// Keeps the last `bytes` bytes of the buffer free from now on.
    #[inline]
    pub const fn set_aside(&mut self, bytes: usize) {
        self.aside = bytes;
    }

    /// Returns the written bytes.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Returns the written bytes with the lifetime of the buffer.
    #[inline]
    pub fn into_written(self) -> &'a mut [u8] {
        &mut self.buf[..self.len]
    }

    /// Reserves space for a frame of exactly `size` bytes.
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

/// Space for one frame of known size. The fields fill it completely, from one end to the other.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    free: &'a mut [u8],
    direction: Direction,
}

impl<'a> Region<'a> {
    /// Returns the next `len` bytes, which the caller fills in memory order.
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

    /// Writes `value` as a varint of the shortest encoding.
    #[inline]
    pub(crate) fn varint(&mut self, value: u64) {
        self.varint_of(value, varint_len(value));
    }

    /// Writes `value` as a varint of `len` bytes (1, 2, 4 or 8), which must suffice for it.
    #[inline]
    pub(crate) fn varint_of(&mut self, value: u64, len: usize) {
        debug_assert!(value <= MAX_VARINT);
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
