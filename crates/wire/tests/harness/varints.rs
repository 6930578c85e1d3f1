//! Invariants of variable-length integers in both directions, compared with the definition of RFC 9000 §16.

use anabranch_testkit::source::Source;
use anabranch_wire::{Direction, MAX_VARINT, Reader, VarInt, push_varint, varint_len};

pub(crate) fn run(data: &[u8]) {
    for direction in [Direction::Forward, Direction::Backward] {
        any_bytes(data, direction);
    }
    let mut source = Source::new(data);
    let (mut values, mut forward) = (Vec::new(), Vec::new());
    while !source.is_empty() {
        let value = source.value();
        let before = forward.len();
        push_varint(&mut forward, value);
        assert_eq!(forward.len() - before, varint_len(value));
        assert_eq!(VarInt::try_from(value).map(VarInt::get), Ok(value));
        assert!(VarInt::try_from(value + MAX_VARINT + 1).is_err());
        values.push(value);
    }
    let mut reader = Reader::new(&forward, Direction::Forward);
    let read: Vec<u64> = std::iter::from_fn(|| reader.varint().ok()).collect();
    assert_eq!((read, reader.is_empty()), (values, true));
}

/// Reads integers until one is cut off.
fn any_bytes(data: &[u8], direction: Direction) {
    let mut reader = Reader::new(data, direction);
    let mut left = data;
    while let Some((value, rest)) = expected(left, direction) {
        assert_eq!(reader.varint(), Ok(value));
        assert_eq!(reader.remaining(), rest.len());
        assert!(varint_len(value) <= left.len() - rest.len());
        left = rest;
    }
    assert!(reader.varint().is_err());
}

/// Decodes an integer at the front or at the back. Returns it with the other bytes.
fn expected(bytes: &[u8], direction: Direction) -> Option<(u64, &[u8])> {
    let fold = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    match direction {
        Direction::Forward => {
            let len = 1_usize << (bytes.first()? >> 6);
            let (bytes, rest) = bytes.split_at_checked(len)?;
            Some((fold(bytes) & (u64::MAX >> (66 - 8 * len)), rest))
        }
        Direction::Backward => {
            let len = 1_usize << (bytes.last()? & 3);
            let (rest, bytes) = bytes.split_at_checked(bytes.len().checked_sub(len)?)?;
            Some((fold(bytes) >> 2, rest))
        }
    }
}
