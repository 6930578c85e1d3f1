//! Invariants of streams of capsules: those of wanted types are read as they were written, in pieces of any size,
//! and all others are skipped.

use anabranch_http3::capsule::{Capsule, CapsuleReader, CapsuleType, MAX_CAPSULE_VALUE};
use anabranch_testkit::source::Source;
use anabranch_wire::push_varint;

/// Maximum number of capsules in a stream.
const MAX_CAPSULES: usize = 16;

const WANTED: &[CapsuleType] = &[CapsuleType::DATAGRAM, CapsuleType(3)];

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    let mut is_too_long = false;
    for _ in 0..usize::from(source.byte()) % MAX_CAPSULES {
        let kind = if source.flag() { source.choose(WANTED) } else { CapsuleType(source.value()) };
        let value = match source.byte() % 16 {
            0 => vec![7; MAX_CAPSULE_VALUE as usize],
            1 => vec![8; MAX_CAPSULE_VALUE as usize + 1],
            _ => source.string(100),
        };
        let is_wanted = WANTED.contains(&kind);
        push_varint(&mut bytes, kind.0);
        push_varint(&mut bytes, value.len() as u64);
        bytes.extend(&value);
        let is_long = value.len() as u64 > MAX_CAPSULE_VALUE;
        // Long datagrams are skipped, because datagrams may be lost (RFC 9297 §3.5).
        is_too_long |= is_wanted && is_long && kind != CapsuleType::DATAGRAM;
        if is_wanted && !is_long && !is_too_long {
            expected.push((kind, value));
        }
    }
    let is_cut = source.flag() && !bytes.is_empty();
    if is_cut {
        bytes.pop();
    }
    let (read, end) = read(&bytes, &mut source);
    let read: Vec<_> = read.into_iter().map(|capsule| (capsule.kind, capsule.value.to_vec())).collect();
    assert!(expected.starts_with(&read));
    if !is_cut {
        assert_eq!((read.len(), end), (expected.len(), !is_too_long));
    } else if !is_too_long {
        assert!(!end, "a stream that ends inside a capsule");
    }
}

/// Reads capsules from pieces whose lengths follow from `source`. Returns them, and whether the stream ended well.
fn read(mut bytes: &[u8], source: &mut Source<'_>) -> (Vec<Capsule>, bool) {
    let mut reader = CapsuleReader::new(WANTED);
    let mut capsules = Vec::new();
    while !bytes.is_empty() {
        let len = if source.is_empty() { bytes.len() } else { 1 + usize::from(source.byte()) };
        let (mut piece, rest) = bytes.split_at(len.min(bytes.len()));
        bytes = rest;
        while !piece.is_empty() {
            let Ok((taken, capsule)) = reader.read(piece) else { return (capsules, false) };
            assert!(taken > 0);
            capsules.extend(capsule);
            piece = &piece[taken..];
        }
    }
    (capsules, reader.end().is_ok())
}
