use super::*;
use proptest::prelude::*;

fn written(direction: Direction, value: u64) -> Vec<u8> {
    let mut buf = [0xaa; 8];
    let mut writer = Writer::new(&mut buf, direction);
    writer.region(varint_len(value)).unwrap().varint(value);
    writer.written().to_vec()
}

/// Checks the examples of RFC 9000 appendix A.1.
#[test]
fn forward_varints() {
    let vectors: [(u64, &[u8]); 4] = [
        (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
        (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
        (15_293, &[0x7b, 0xbd]),
        (37, &[0x25]),
    ];
    for (value, bytes) in vectors {
        assert_eq!(Reader::new(bytes, Direction::Forward).varint(), Ok(value));
        assert_eq!(written(Direction::Forward, value), bytes);
    }
    // Outside of frame types, a varint need not have the shortest encoding.
    assert_eq!(Reader::new(&[0x40, 0x25], Direction::Forward).varint(), Ok(37));
}

#[test]
fn backward_varints() {
    let vectors: [(u64, &[u8]); 4] = [
        (151_288_809_941_952_652, &[0x08, 0x65, 0xf1, 0x7b, 0xfc, 0x53, 0xa2, 0x33]),
        (494_878_333, &[0x75, 0xfc, 0xf9, 0xf6]),
        (15_293, &[0xee, 0xf5]),
        (37, &[0x94]),
    ];
    for (value, bytes) in vectors {
        assert_eq!(Reader::new(bytes, Direction::Backward).varint(), Ok(value));
        assert_eq!(written(Direction::Backward, value), bytes);
    }
}

#[test]
fn backward_reads_from_the_end_without_reversing_bytes() {
    let mut reader = Reader::new(&[1, 2, 3, 4, 5, 6, 7], Direction::Backward);
    assert_eq!(reader.u16(), Ok(0x0607));
    assert_eq!(reader.bytes(2), Ok(&[4, 5][..]));
    assert_eq!(reader.bytes(4), Err(Malformed));
    assert_eq!(reader.remaining(), 3, "a failed read takes nothing");
    assert_eq!(reader.rest(), [1, 2, 3]);
    assert!(reader.is_empty());
}

#[test]
fn truncated_varints_are_malformed() {
    assert_eq!(Reader::new(&[], Direction::Forward).varint(), Err(Malformed));
    assert_eq!(Reader::new(&[0xc0, 0, 0], Direction::Forward).varint(), Err(Malformed));
    assert_eq!(Reader::new(&[0, 0, 3], Direction::Backward).varint(), Err(Malformed));
}

#[test]
fn padding_stops_at_the_buffer() {
    let mut buf = [0xaa; 6];
    let mut writer = Writer::new(&mut buf, Direction::Forward);
    writer.region(1).unwrap().varint(1);
    writer.pad_to(3);
    assert_eq!(writer.written(), [1, 0, 0]);
    writer.pad_to(2);
    assert_eq!(writer.len(), 3);
    writer.pad_to(100);
    assert_eq!(writer.into_written(), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn what_is_written_last_can_lead() {
    let mut buf = [0xaa; 6];
    let mut writer = Writer::new(&mut buf, Direction::Backward);
    writer.set_aside(4);
    assert_eq!(writer.remaining(), 2);
    assert!(writer.region(3).is_err());
    writer.region(2).unwrap().varint(300);
    let before = writer.len();
    assert!(writer.region(1).is_err());
    writer.set_aside(0);
    writer.region(3).unwrap().take(3).copy_from_slice(b"abc");
    writer.lead(before);
    assert_eq!(writer.written(), b"abc\x04\xb1");
}

proptest! {
    #[test]
    fn varints_round_trip(value in 0..=MAX_VARINT, shift in 0..62) {
        let value = value >> shift;
        for direction in [Direction::Forward, Direction::Backward] {
            let bytes = written(direction, value);
            let mut reader = Reader::new(&bytes, direction);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }
    }
}
