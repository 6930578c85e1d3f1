//! Checks that the same fields in the order of version 1 and of VReverso give the same frames, or the same
//! error.

use anabranch_testkit::source::Source;
use anabranch_wire::{Frame, FrameError, Frames, Version, push_varint, varint_len};

/// Maximum number of frames in a payload.
const MAX_FRAMES: usize = 12;

/// Frame types with the kinds of their fields: `v` is a varint, `s` a byte string with its length, `c` a
/// connection ID with its length, `t` a reset token, and `8` eight bytes.
const SHAPES: &[(u64, &str)] = &[
    (0x01, ""),
    (0x04, "vvv"),
    (0x05, "vv"),
    (0x06, "vs"),
    (0x07, "s"),
    (0x0a, "vs"),
    (0x0e, "vvs"),
    (0x0f, "vvs"),
    (0x10, "v"),
    (0x11, "vv"),
    (0x12, "v"),
    (0x13, "v"),
    (0x14, "v"),
    (0x15, "vv"),
    (0x16, "v"),
    (0x17, "v"),
    (0x18, "vvct"),
    (0x19, "v"),
    (0x1a, "8"),
    (0x1b, "8"),
    (0x1c, "vvs"),
    (0x1d, "vs"),
    (0x1e, ""),
    (0x1f, ""),
    (0x31, "s"),
    (0x40, "v"),
    (0xaf, "vvvv"),
    (0x3e75, "vv"),
    (0x3e76, "vv"),
    (0x3e77, "vv"),
    (0x3e78, "vvvct"),
    (0x3e79, "vv"),
    (0x3e7a, "v"),
    (0x3e7b, "v"),
    (0x3e7c, "vv"),
];

/// Field that is encoded in both directions.
enum Field {
    Varint(u64),
    Bytes(Vec<u8>),
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let mut fields = Vec::new();
    for _ in 0..1 + usize::from(source.byte()) % MAX_FRAMES {
        let (kind, shape) = SHAPES[usize::from(source.byte()) % SHAPES.len()];
        fields.push(Field::Varint(kind));
        for field in shape.bytes() {
            match field {
                b'v' => fields.push(Field::Varint(source.value())),
                b's' => {
                    let bytes = source.byte() % 40;
                    let bytes = source.bytes(bytes.into());
                    fields.extend([Field::Varint(bytes.len() as u64), Field::Bytes(bytes)]);
                }
                b'c' => {
                    let len = source.byte() % 24;
                    fields.extend([Field::Bytes(vec![len]), Field::Bytes(source.bytes(len.into()))]);
                }
                b't' => fields.push(Field::Bytes(source.bytes(16))),
                _ => fields.push(Field::Bytes(source.bytes(8))),
            }
        }
    }
    // Some payloads end inside their last frame.
    let cut = usize::from(source.byte() % 4).min(fields.len() - 1);
    fields.truncate(fields.len() - cut);
    compare(&fields);
}

fn compare(fields: &[Field]) {
    let forward: Vec<u8> = fields.iter().flat_map(encode_forward).collect();
    let backward: Vec<u8> = fields.iter().rev().flat_map(encode_backward).collect();
    assert_eq!(forward.len(), backward.len());
    let direction = |version: Version| version.format().expect("a version that is spoken").direction;
    let one = Frames::new(&forward, direction(Version::V1));
    let mut other = Frames::new(&backward, direction(Version::REVERSO));
    for read in one {
        let mirrored = other.next().expect("as many frames");
        assert!(is_same(&read, &mirrored), "{read:?} {mirrored:?}");
    }
    assert!(other.next().is_none());
}

fn is_same(one: &Result<Frame<'_>, FrameError>, other: &Result<Frame<'_>, FrameError>) -> bool {
    match (one, other) {
        (Ok(Frame::Ack(one)), Ok(Frame::Ack(other))) => one.ranges().eq(other.ranges()),
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => (one.code, one.frame_type) == (other.code, other.frame_type),
        _ => false,
    }
}

fn encode_forward(field: &Field) -> Vec<u8> {
    match field {
        Field::Varint(value) => {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, *value);
            bytes
        }
        Field::Bytes(bytes) => bytes.clone(),
    }
}

fn encode_backward(field: &Field) -> Vec<u8> {
    match field {
        Field::Varint(value) => {
            let len = varint_len(*value);
            (value << 2 | u64::from(len.trailing_zeros())).to_be_bytes()[8 - len..].to_vec()
        }
        Field::Bytes(bytes) => bytes.clone(),
    }
}
