//! Prefixed integers (RFC 7541 §5.1, RFC 9204 §4.1.1), and the reader of all QPACK formats.

/// Largest integer that QPACK must support, 2^62 - 1.
pub(super) const MAX_INTEGER: u64 = (1 << 62) - 1;

/// Maximum number of bytes after an integer's first byte. Nine bytes carry 62 bits; one more is tolerated if
/// it adds nothing.
pub(super) const MAX_CONTINUATION: usize = 10;

/// Reason that nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// End of the bytes. On a stream the rest may still arrive; in a field section this is an error.
    Incomplete,
    /// Bytes that are invalid regardless of what follows.
    Malformed(&'static str),
}

/// Reader of bytes in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of unread bytes.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the next byte, whose high bits give the format, without consuming it.
    #[inline]
    pub(super) fn peek(&self) -> Result<u8, Fault> {
        self.bytes.first().copied().ok_or(Fault::Incomplete)
    }

    /// Reads the next `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Fault::Incomplete)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads an integer with a prefix of `prefix` bits: the low bits of the next byte, and further bytes if
    /// the prefix does not suffice.
    #[inline]
    pub(super) fn integer(&mut self, prefix: u32) -> Result<u64, Fault> {
        let (&first, rest) = self.bytes.split_first().ok_or(Fault::Incomplete)?;
        let limit = low_bits(prefix);
        self.bytes = rest;
        if first & limit < limit {
            return Ok(u64::from(first & limit));
        }
        self.continuation(u64::from(limit))
    }

    fn continuation(&mut self, start: u64) -> Result<u64, Fault> {
        let mut value = u128::from(start);
        for (index, &byte) in self.bytes.iter().take(MAX_CONTINUATION).enumerate() {
            value += u128::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[index + 1..];
                let value = u64::try_from(value).ok().filter(|value| *value <= MAX_INTEGER);
                return value.ok_or(Fault::Malformed("an integer above 2^62 - 1"));
            }
        }
        if self.bytes.len() < MAX_CONTINUATION {
            return Err(Fault::Incomplete);
        }
        Err(Fault::Malformed("an integer of too many bytes"))
    }
}

/// Appends `value` with a prefix of `prefix` bits. `flags` are the bits above the prefix.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, flags: u8, prefix: u32, value: u64) {
    let limit = low_bits(prefix);
    debug_assert_eq!(flags & limit, 0, "flags lie above the prefix");
    if value < u64::from(limit) {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | limit);
    let mut rest = value - u64::from(limit);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Returns a byte whose low `count` bits are set; `count` must be 1 to 8.
const fn low_bits(count: u32) -> u8 {
    0xff >> (8 - count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], prefix: u32) -> Result<u64, Fault> {
        Reader::new(bytes).integer(prefix)
    }

    /// Examples of RFC 7541 §C.1.
    #[test]
    fn examples() {
        for (prefix, value, bytes) in
            [(5, 10, &[0x0a][..]), (5, 1337, &[0x1f, 0x9a, 0x0a]), (8, 42, &[0x2a]), (7, 127, &[0x7f, 0])]
        {
            let mut out = Vec::new();
            write(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, prefix), Ok(value));
        }
    }

    #[test]
    fn limits() {
        let mut largest = Vec::new();
        write(&mut largest, 0x80, 3, MAX_INTEGER);
        assert_eq!(read(&largest, 3), Ok(MAX_INTEGER));
        let mut above = Vec::new();
        write(&mut above, 0x80, 3, MAX_INTEGER + 1);
        assert_eq!(read(&above, 3), Err(Fault::Malformed("an integer above 2^62 - 1")));

        let zeros = |count: usize| [&[0xff][..], &vec![0x80; count - 1], &[0]].concat();
        assert_eq!(read(&zeros(MAX_CONTINUATION), 8), Ok(255));
        let endless = Fault::Malformed("an integer of too many bytes");
        assert_eq!(read(&zeros(MAX_CONTINUATION + 1), 8), Err(endless));
        assert_eq!(read(&[0xff; 64], 8), Err(endless));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX_INTEGER, shift in 0u32..62, prefix in 1u32..=8) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, 0, prefix, value);
            for len in 0..out.len() {
                prop_assert_eq!(read(&out[..len], prefix), Err(Fault::Incomplete));
            }
            out.push(0xaa);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.integer(prefix), Ok(value));
            prop_assert_eq!(reader.remaining(), 1);
        }
    }
}
