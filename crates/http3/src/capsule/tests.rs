use super::*;

const MINE: CapsuleType = CapsuleType(0x2843);
const WANTED: &[CapsuleType] = &[CapsuleType::DATAGRAM, MINE];

fn capsule(kind: CapsuleType, value: &'static [u8]) -> Capsule {
    Capsule { kind, value: Bytes::from_static(value) }
}

/// Reads all capsules in `pieces`, one piece after the other.
fn read_all<'a>(
    reader: &mut CapsuleReader,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Capsule>, Malformed> {
    let mut capsules = Vec::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            let (taken, capsule) = reader.read(piece)?;
            assert!(taken > 0);
            piece = &piece[taken..];
            capsules.extend(capsule);
        }
    }
    Ok(capsules)
}

fn head(kind: CapsuleType, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_varint(&mut bytes, kind.0);
    push_varint(&mut bytes, len);
    bytes
}

#[test]
fn capsules_may_be_split_anywhere() {
    let expected = [capsule(CapsuleType::DATAGRAM, b"one"), capsule(MINE, b""), capsule(MINE, b"two")];
    let mut bytes = Vec::new();
    for capsule in &expected {
        capsule.encode(&mut bytes);
        self::capsule(CapsuleType(0x17), b"nobody wants this").encode(&mut bytes);
    }
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let mut reader = CapsuleReader::new(WANTED);
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(read_all(&mut reader, pieces).unwrap(), expected);
            assert_eq!(reader.end(), Ok(()));
        }
    }
}

#[test]
fn content_must_not_end_inside_a_capsule() {
    for kind in [MINE, CapsuleType(0x17)] {
        let mut bytes = Vec::new();
        capsule(kind, b"value").encode(&mut bytes);
        for end in 0..=bytes.len() {
            let mut reader = CapsuleReader::new(WANTED);
            read_all(&mut reader, [&bytes[..end]]).unwrap();
            assert_eq!(reader.end().is_ok(), end == 0 || end == bytes.len(), "{end}");
        }
    }
}

#[test]
fn a_value_longer_than_max_capsule_value_is_malformed() {
    let mut reader = CapsuleReader::new(WANTED);
    let longest = vec![7; MAX_CAPSULE_VALUE as usize];
    let capsules = read_all(&mut reader, [&head(MINE, MAX_CAPSULE_VALUE)[..], &longest]).unwrap();
    assert_eq!(capsules, [Capsule { kind: MINE, value: longest.into() }]);
    assert!(reader.read(&head(MINE, MAX_CAPSULE_VALUE + 1)).is_err());
}

#[test]
fn what_is_announced_is_not_allocated() {
    let mut reader = CapsuleReader::new(WANTED);
    read_all(&mut reader, [&head(MINE, MAX_CAPSULE_VALUE)[..], b"x"]).unwrap();
    let State::Value { gathered, .. } = &reader.state else { panic!("{reader:?}") };
    assert!(gathered.capacity() <= 64, "{}", gathered.capacity());
}

#[test]
fn what_is_not_wanted_may_be_of_any_length() {
    for (kind, len) in [(CapsuleType(0x17), 1 << 61), (CapsuleType::DATAGRAM, MAX_CAPSULE_VALUE + 1)] {
        let mut reader = CapsuleReader::new(WANTED);
        assert_eq!(read_all(&mut reader, [&head(kind, len)[..], &[0; 4096]]), Ok(vec![]));
        assert!(matches!(reader.state, State::Skip { missing } if missing == len - 4096));
    }
    // After an oversized datagram, the reader finds the next capsule.
    let mut reader = CapsuleReader::new(WANTED);
    let long = vec![0; MAX_CAPSULE_VALUE as usize + 1];
    let next = [&head(MINE, 2)[..], b"ok"].concat();
    let pieces = [&head(CapsuleType::DATAGRAM, long.len() as u64)[..], &long, &next];
    assert_eq!(read_all(&mut reader, pieces).unwrap(), [capsule(MINE, b"ok")]);
}
