//! Huffman code of RFC 7541, Appendix B.
//!
//! The code is canonical. Codes of one length count upwards in the order of their symbols, and the first code
//! of a length follows the last code of the previous length. The lengths therefore determine the code. The
//! tables for both directions are computed from them at compile time.

/// Reason that a string cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HuffmanError {
    /// EOS within the string, more than seven bits of padding, or padding that is not a prefix of EOS (RFC
    /// 7541 §5.2).
    Malformed,
    /// Text that is longer than the caller's limit.
    TooLong,
}

/// Returns the encoded length of `text`, in bytes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: u64 = text.iter().map(|&byte| u64::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8) as usize
}

/// Appends the encoded `text` to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut buffer, mut bits) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        buffer = buffer << length | u64::from(CODES[usize::from(byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((buffer >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push((buffer << (8 - bits)) as u8 | 0xff >> bits);
    }
}

/// Returns the minimum length of text that is encoded in `encoded_len` bytes. The longest code has 30 bits,
/// and up to 7 bits are padding.
pub(super) fn min_decoded_len(encoded_len: usize) -> usize {
    let bits = encoded_len.saturating_mul(8).saturating_sub(7);
    bits.div_ceil(usize::from(LENGTHS[EOS]))
}

/// Decodes `code` into `out`, which is cleared first. The text may have at most `max` bytes.
pub(super) fn decode(code: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), HuffmanError> {
    out.clear();
    if min_decoded_len(code.len()) > max {
        return Err(HuffmanError::TooLong);
    }
    // The shortest code has five bits.
    out.reserve((code.len() * 8 / 5).min(max));
    let mut window = Window { bytes: code, bits: 0, len: 0 };
    while window.refill() > 0 {
        let next = window.peek();
        let (symbol, length) = symbol(next);
        if length > window.len || symbol == EOS {
            // Padding consists of the first bits of EOS.
            let padding = window.len < 8 && next >> (32 - window.len) == (1 << window.len) - 1;
            return if padding { Ok(()) } else { Err(HuffmanError::Malformed) };
        }
        if out.len() == max {
            return Err(HuffmanError::TooLong);
        }
        out.push(symbol as u8);
        window.len -= length;
    }
    Ok(())
}

/// Next bits of a string: the low `len` bits of `bits`.
struct Window<'a> {
    bytes: &'a [u8],
    bits: u64,
    len: u32,
}

impl Window<'_> {
    /// Reads bytes until at least 32 bits are available, or to the end of the string. Returns the number of
    /// available bits.
    #[inline]
    fn refill(&mut self) -> u32 {
        if self.len < 32 {
            if let Some((next, rest)) = self.bytes.split_first_chunk::<4>() {
                self.bits = self.bits << 32 | u64::from(u32::from_be_bytes(*next));
                self.len += 32;
                self.bytes = rest;
            } else {
                while let Some((&next, rest)) = self.bytes.split_first() {
                    self.bits = self.bits << 8 | u64::from(next);
                    self.len += 8;
                    self.bytes = rest;
                }
            }
        }
        self.len
    }

    /// Returns the next 32 bits. If fewer are left, ones follow.
    #[inline]
    fn peek(&self) -> u32 {
        if self.len >= 32 {
            return (self.bits >> (self.len - 32)) as u32;
        }
        let missing = 32 - self.len;
        (self.bits << missing) as u32 | ((1u64 << missing) - 1) as u32
    }
}

/// Returns the symbol at the beginning of `next`, and the length of its code in bits.
#[inline]
fn symbol(next: u32) -> (usize, u32) {
    let (symbol, length) = SHORT[(next >> 24) as usize];
    if length > 0 {
        return (usize::from(symbol), u32::from(length));
    }
    let row = LONG.iter().find(|row| next <= row.last).unwrap_or(&LONG[LONG.len() - 1]);
    let rank = usize::from(row.rank) + ((next - row.first) >> (32 - row.length)) as usize;
    (usize::from(BY_CODE[rank]), row.length)
}

/// End-of-string symbol, which must not occur in a string.
const EOS: usize = 256;
const SYMBOLS: usize = 257;
/// Maximum length of a code that one table lookup decodes, in bits.
const SHORT_BITS: u32 = 8;
/// Number of code lengths above [`SHORT_BITS`] that occur. They are between 10 and 30 bits.
const LONG_LENGTHS: usize = count_long_lengths();

/// Codes of one length, aligned to the highest of 32 bits.
#[derive(Clone, Copy)]
struct Row {
    first: u32,
    last: u32,
    length: u32,
    /// Position of the first code in `BY_CODE`.
    rank: u16,
}

/// Length of each symbol's code, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Symbols in the order of their codes.
static BY_CODE: [u16; SYMBOLS] = by_code();
/// Code of each symbol, aligned to the lowest bit.
static CODES: [u32; SYMBOLS] = codes();
/// Symbol and code length for each value of the next eight bits. The length is 0 if the code is longer.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = short();
static LONG: [Row; LONG_LENGTHS] = long();

const fn by_code() -> [u16; SYMBOLS] {
    let mut order = [0; SYMBOLS];
    let (mut rank, mut length) = (0, 1);
    while rank < SYMBOLS {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] == length {
                order[rank] = symbol as u16;
                rank += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    order
}

const fn codes() -> [u32; SYMBOLS] {
    let order = by_code();
    let mut codes = [0; SYMBOLS];
    let (mut rank, mut next, mut length) = (0, 0u32, 0);
    while rank < SYMBOLS {
        let symbol = order[rank] as usize;
        next <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = next;
        next += 1;
        rank += 1;
    }
    assert!(next == 1 << length, "the code leaves no sequence of bits without a meaning");
    codes
}

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let codes = codes();
    let mut table = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < EOS {
        let length = LENGTHS[symbol];
        if length as u32 <= SHORT_BITS {
            let free = SHORT_BITS - length as u32;
            let mut rest = 0;
            while rest < 1 << free {
                table[((codes[symbol] << free) | rest) as usize] = (symbol as u8, length);
                rest += 1;
            }
        }
        symbol += 1;
    }
    table
}

const fn count_long_lengths() -> usize {
    let order = by_code();
    let (mut count, mut rank, mut length) = (0, 0, SHORT_BITS as u8);
    while rank < SYMBOLS {
        let symbol = order[rank] as usize;
        if LENGTHS[symbol] > length {
            length = LENGTHS[symbol];
            count += 1;
        }
        rank += 1;
    }
    count
}

const fn long() -> [Row; LONG_LENGTHS] {
    let (order, codes) = (by_code(), codes());
    let mut rows = [Row { first: 0, last: 0, length: 0, rank: 0 }; LONG_LENGTHS];
    let (mut count, mut rank, mut length) = (0, 0, SHORT_BITS);
    while rank < SYMBOLS {
        let symbol = order[rank] as usize;
        if LENGTHS[symbol] as u32 > length {
            length = LENGTHS[symbol] as u32;
            rows[count] = Row { first: codes[symbol] << (32 - length), last: 0, length, rank: rank as u16 };
            count += 1;
        }
        if count > 0 {
            rows[count - 1].last = (codes[symbol] << (32 - length)) | (u32::MAX >> length);
        }
        rank += 1;
    }
    rows
}

#[cfg(test)]
mod tests;
