//! Types of unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2), and the reserved numbers (greasing).

use anabranch_wire::MAX_VARINT;

use crate::varints::VarintsReader;

/// Registered type of a unidirectional stream. It is the first byte of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamType(pub u8);

impl StreamType {
    /// Control stream, which carries SETTINGS and other control frames; one in each direction.
    pub const CONTROL: Self = Self(0x0);
    /// Push stream, which carries a pushed response; opened by servers only.
    pub const PUSH: Self = Self(0x1);
    /// QPACK encoder stream; at most one in each direction.
    pub const QPACK_ENCODER: Self = Self(0x2);
    /// QPACK decoder stream; at most one in each direction.
    pub const QPACK_DECODER: Self = Self(0x3);
}

/// Incremental parser of the type of a peer's stream. It accepts the varint in pieces of any size.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeReader(VarintsReader<1>);

impl TypeReader {
    /// Reads up to the end of the type. Returns the number of bytes read, and the type once it is complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> (usize, Option<u64>) {
        let (taken, kind) = self.0.read(bytes);
        (taken, kind.map(|[kind]| kind))
    }
}

/// Returns a reserved stream type, frame type or setting identifier, which peers must ignore: 0x1f · N + 0x21
/// (RFC 9114 §6.2.3, §7.2.4.1, §7.2.8). `number` may have any value.
pub const fn reserved(number: u64) -> u64 {
    0x1f * (number % ((MAX_VARINT - 0x21) / 0x1f + 1)) + 0x21
}

/// Returns whether `value` is reserved in the sense of [`reserved`].
pub const fn is_reserved(value: u64) -> bool {
    value >= 0x21 && (value - 0x21).is_multiple_of(0x1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_may_come_in_pieces() {
        for bytes in [&b"\x03"[..], b"\x40\x03", b"\x80\0\0\x03", b"\xc0\0\0\0\0\0\0\x03"] {
            let (last, first) = bytes.split_last().unwrap();
            let mut reader = TypeReader::default();
            assert_eq!(reader.read(first), (first.len(), None));
            assert_eq!(reader.read(&[*last, 0xff]), (1, Some(3)));
            assert_eq!(reader.read(&[bytes, b"more"].concat()), (bytes.len(), Some(3)));
        }
    }

    #[test]
    fn reserved_numbers_are_varints_of_their_form() {
        for number in [0, 1, 2, 0x1234_5678, MAX_VARINT, u64::MAX] {
            let value = reserved(number);
            assert!(value <= MAX_VARINT);
            assert!(is_reserved(value) && !is_reserved(value - 1));
        }
        assert_eq!((reserved(0), reserved(1)), (0x21, 0x40));
    }
}
