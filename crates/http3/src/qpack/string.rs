//! String literals (RFC 7541 §5.2, RFC 9204 §4.1.2).

use super::huffman;
use super::integer::{self, Fault, Reader};

/// String as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Literal<'a> {
    /// `true` if the string is Huffman-encoded.
    pub(super) huffman: bool,
    pub(super) bytes: &'a [u8],
}

impl<'a> Literal<'a> {
    /// Reads a string whose Huffman flag and length occupy the low `prefix` bits of the next byte. Returns
    /// `None` as soon as the length shows that the text exceeds `max` bytes.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>, prefix: u32, max: usize) -> Result<Option<Self>, Fault> {
        let huffman = reader.peek()? >> (prefix - 1) & 1 == 1;
        let len = usize::try_from(reader.integer(prefix - 1)?).unwrap_or(usize::MAX);
        let least = if huffman { huffman::min_decoded_len(len) } else { len };
        if least > max {
            return Ok(None);
        }
        Ok(Some(Self { huffman, bytes: reader.take(len)? }))
    }

    /// Returns the string's text; `None` if it is longer than `max` bytes. Huffman-encoded text is decoded
    /// into `scratch`.
    #[inline]
    pub(super) fn text<'b>(self, max: usize, scratch: &'b mut Vec<u8>) -> Result<Option<&'b [u8]>, Fault>
    where
        'a: 'b,
    {
        if !self.huffman {
            return Ok((self.bytes.len() <= max).then_some(self.bytes));
        }
        match huffman::decode(self.bytes, max, scratch) {
            Ok(()) => Ok(Some(scratch)),
            Err(huffman::HuffmanError::TooLong) => Ok(None),
            Err(huffman::HuffmanError::Malformed) => {
                Err(Fault::Malformed("a string that is no Huffman code"))
            }
        }
    }
}

/// Appends `text`, Huffman-encoded if that is shorter. The Huffman flag and the length occupy the low
/// `prefix` bits of the first byte; `flags` are the bits above.
pub(super) fn write(out: &mut Vec<u8>, flags: u8, prefix: u32, text: &[u8]) {
    let len = huffman::encoded_len(text);
    if len < text.len() {
        integer::write(out, flags | 1 << (prefix - 1), prefix - 1, len as u64);
        huffman::encode(text, out);
    } else {
        integer::write(out, flags, prefix - 1, text.len() as u64);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_form_is_written() {
        for (text, huffman) in [("", false), ("a", false), ("custom-key", true), ("\u{7f}\u{7f}", false)] {
            for prefix in 2..=8 {
                let mut out = Vec::new();
                write(&mut out, 0, prefix, text.as_bytes());
                let literal = Literal::read(&mut Reader::new(&out), prefix, 100).unwrap().unwrap();
                assert_eq!(literal.huffman, huffman, "{text:?} with {prefix} bits");
                assert_eq!(literal.text(100, &mut Vec::new()), Ok(Some(text.as_bytes())));
            }
        }
    }

    #[test]
    fn length_is_judged_before_the_string_is_there() {
        assert_eq!(Literal::read(&mut Reader::new(&[11]), 8, 10), Ok(None));
        assert_eq!(Literal::read(&mut Reader::new(&[10]), 8, 10), Err(Fault::Incomplete));
        // Eleven bytes of Huffman code are at least three bytes of text.
        assert_eq!(Literal::read(&mut Reader::new(&[0x80 | 11]), 8, 2), Ok(None));
        assert_eq!(Literal::read(&mut Reader::new(&[0x80 | 11]), 8, 3), Err(Fault::Incomplete));
    }
}
