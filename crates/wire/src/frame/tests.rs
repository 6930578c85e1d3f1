use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::hex;
use crate::{EcnCounts, MAX_VARINT, VarInt};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

fn written(direction: Direction, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buf = vec![0xaa; 4096];
    let mut writer = Writer::new(&mut buf, direction);
    write(&mut writer);
    writer.written().to_vec()
}

fn bytes_of(direction: Direction, frame: &Frame<'_>) -> Vec<u8> {
    let bytes = written(direction, |writer| writer.frame(frame).unwrap());
    assert_eq!(bytes.len(), frame.size(), "{frame:?}");
    bytes
}

fn only(direction: Direction, bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let mut frames = Frames::new(bytes, direction);
    let first = frames.next().unwrap();
    assert!(frames.next().is_none(), "nothing follows {first:?}");
    first
}

const RANGES: [RangeInclusive<u64>; 3] = [10..=12, 5..=7, 0..=0];
const ECN: EcnCounts = EcnCounts { ect0: 1, ect1: 2, ce: 3 };

fn ack(path: Option<PathId>, ecn: Option<EcnCounts>) -> Frame<'static> {
    let bytes = written(Direction::Forward, |writer| {
        assert_eq!(write_ack(writer, path, RANGES.into_iter(), 3, ecn), Ok(3));
    });
    only(Direction::Forward, Vec::leak(bytes)).unwrap()
}

/// Returns one frame of every type that is written, its forward encoding, and the kinds of packets in which
/// it is permitted.
fn samples() -> Vec<(Frame<'static>, String, &'static str)> {
    use Frame::*;
    let path = PathId(2);
    let cid = ConnectionId::new(&[0xaa, 0xbb]).unwrap();
    let token = "11".repeat(16);
    let issued = |path| super::NewConnectionId {
        path,
        sequence: 3,
        retire_prior_to: 1,
        cid,
        token: ResetToken([0x11; 16]),
    };
    let stream = |fin| super::Stream { id: StreamId::from_u64(5), offset: 1, fin, data: b"hi" };
    let close = |application, code, frame_type, reason| super::ConnectionClose {
        application,
        code,
        frame_type,
        reason,
    };
    let id = StreamId::from_u64;
    let list: Vec<(Frame<'static>, String, &'static str)> = vec![
        (Padding(3), "000000".into(), "IH01"),
        (Ping, "01".into(), "IH01"),
        (ack(None, None), "02 0c030202 0102 0300".into(), "IH_1"),
        (ack(None, Some(ECN)), "03 0c030202 0102 0300 010203".into(), "IH_1"),
        (
            ResetStream { id: id(4), code: VarInt::from_u32(0x40), final_size: 0x4000 },
            "04 04 4040 80004000".into(),
            "__01",
        ),
        (StopSending { id: id(8), code: VarInt::from_u32(1) }, "05 08 01".into(), "__01"),
        (Crypto { offset: 2, data: b"abc" }, "06 02 4003 616263".into(), "IH_1"),
        (NewToken { token: b"tok" }, "07 4003 746f6b".into(), "___1"),
        (Stream(stream(false)), "0e 05 01 4002 6869".into(), "__01"),
        (Stream(stream(true)), "0f 05 01 4002 6869".into(), "__01"),
        (MaxData(1000), "10 43e8".into(), "__01"),
        (MaxStreamData { id: id(1), maximum: 5 }, "11 01 05".into(), "__01"),
        (MaxStreams { dir: Dir::Bi, maximum: 16 }, "12 10".into(), "__01"),
        (MaxStreams { dir: Dir::Uni, maximum: 16 }, "13 10".into(), "__01"),
        (DataBlocked(7), "14 07".into(), "__01"),
        (StreamDataBlocked { id: id(2), maximum: 9 }, "15 02 09".into(), "__01"),
        (StreamsBlocked { dir: Dir::Bi, maximum: 3 }, "16 03".into(), "__01"),
        (StreamsBlocked { dir: Dir::Uni, maximum: 3 }, "17 03".into(), "__01"),
        (NewConnectionId(issued(None)), format!("18 03 01 02 aabb {token}"), "__01"),
        (RetireConnectionId { path: None, sequence: 5 }, "19 05".into(), "___1"),
        (PathChallenge([1, 2, 3, 4, 5, 6, 7, 8]), "1a 0102030405060708".into(), "__01"),
        (PathResponse([1, 2, 3, 4, 5, 6, 7, 8]), "1b 0102030405060708".into(), "___1"),
        (ConnectionClose(close(false, VarInt::from_u32(10), 6, b"x")), "1c 0a 06 4001 78".into(), "IH01"),
        (ConnectionClose(close(true, VarInt::from_u32(5), 0, b"")), "1d 05 4000".into(), "__01"),
        (HandshakeDone, "1e".into(), "___1"),
        (ImmediateAck, "1f".into(), "___1"),
        (Datagram { data: b"z" }, "31 4001 7a".into(), "__01"),
        (ack(Some(path), None), "3e 02 0c030202 0102 0300".into(), "___1"),
        (ack(Some(path), Some(ECN)), "3f 02 0c030202 0102 0300 010203".into(), "___1"),
        (
            AckFrequency { sequence: 1, threshold: 2, max_ack_delay_us: 25_000, reordering_threshold: 0 },
            "40af 01 02 800061a8 00".into(),
            "___1",
        ),
        (PathAbandon { path, code: VarInt::from_u32(0x3e) }, "7e75 02 3e".into(), "___1"),
        (PathStatus { path, available: false, sequence: 1 }, "7e76 02 01".into(), "___1"),
        (PathStatus { path, available: true, sequence: 1 }, "7e77 02 01".into(), "___1"),
        (NewConnectionId(issued(Some(path))), format!("7e78 02 03 01 02 aabb {token}"), "___1"),
        (RetireConnectionId { path: Some(path), sequence: 5 }, "7e79 02 05".into(), "___1"),
        (MaxPathId(9), "7e7a 09".into(), "___1"),
        (PathsBlocked(9), "7e7b 09".into(), "___1"),
        (PathCidsBlocked { path, next_sequence: 4 }, "7e7c 02 04".into(), "___1"),
        (
            AlternativeV4Address {
                flags: AddressFlags { preferred: true, retire: false },
                sequence: 5,
                address: "192.0.2.1:443".parse().unwrap(),
            },
            "9d5845e2 80 05 c0000201 01bb".into(),
            "___1",
        ),
        (
            AlternativeV6Address {
                flags: AddressFlags { preferred: false, retire: true },
                sequence: 6,
                address: "[2001:db8::1]:443".parse().unwrap(),
            },
            "9d5845e3 40 06 20010db8000000000000000000000001 01bb".into(),
            "___1",
        ),
    ];
    list
}

/// Returns whether two frames are equal, regardless of the direction in which the ranges of an ACK are
/// encoded.
fn same(a: &Frame<'_>, b: &Frame<'_>) -> bool {
    match (a, b) {
        (Frame::Ack(a), Frame::Ack(b)) => {
            (a.path, a.largest, a.delay, a.ecn) == (b.path, b.largest, b.delay, b.ecn)
                && a.ranges().eq(b.ranges())
        }
        _ => a == b,
    }
}

#[test]
fn samples_cover_every_type() {
    let kinds: BTreeSet<u64> = samples().iter().map(|(frame, ..)| frame.kind()).collect();
    let expected: BTreeSet<u64> = (0x00..=0x07)
        .chain(0x0e..=0x1f)
        .chain([0x31, 0x3e, 0x3f, 0xaf])
        .chain(0x3e75..=0x3e7c)
        .chain(0x1d58_45e2..=0x1d58_45e3)
        .collect();
    assert_eq!(kinds, expected);
}

#[test]
fn forward_bytes() {
    for (frame, bytes, _) in samples() {
        assert_eq!(bytes_of(Direction::Forward, &frame), hex(&bytes), "{frame:?}");
        assert_eq!(only(Direction::Forward, &hex(&bytes)), Ok(frame));
    }
}

/// Checks that the type is the last byte and that fields are in reverse order, but that byte strings are not
/// reversed.
#[test]
fn backward_bytes() {
    let vectors = [
        (0x03, "0c0804 000c 0804 0808 0c 30 0c"),
        (0x04, "00010002 0101 10 10"),
        (0x06, "616263 000d 08 18"),
        (0x0f, "6869 0009 04 14 3c"),
        (0x18, "11111111111111111111111111111111 aabb 02 04 0c 60"),
        (0x31, "7a 0005 c4"),
        (0x3e79, "14 08 f9e5"),
    ];
    for (kind, bytes) in vectors {
        let (frame, ..) = samples().into_iter().find(|(frame, ..)| frame.kind() == kind).unwrap();
        assert_eq!(bytes_of(Direction::Backward, &frame), hex(bytes), "{frame:?}");
        assert!(same(&only(Direction::Backward, &hex(bytes)).unwrap(), &frame));
    }
}

#[test]
fn samples_round_trip_in_both_directions_alone_and_together() {
    for direction in BOTH {
        let frames: Vec<_> = samples().into_iter().map(|(frame, ..)| frame).collect();
        for frame in &frames {
            let bytes = bytes_of(direction, frame);
            assert!(same(&only(direction, &bytes).unwrap(), frame), "{direction:?} {frame:?}");
        }
        let together =
            written(direction, |writer| frames.iter().for_each(|frame| writer.frame(frame).unwrap()));
        let mut read: Vec<_> = Frames::new(&together, direction).map(Result::unwrap).collect();
        if direction == Direction::Backward {
            read.reverse();
        }
        assert_eq!(read.len(), frames.len());
        assert!(read.iter().zip(&frames).all(|(a, b)| same(a, b)));
    }
}

#[test]
fn every_truncated_frame_is_an_encoding_error() {
    for direction in BOTH {
        for (frame, ..) in samples() {
            let bytes = bytes_of(direction, &frame);
            if matches!(frame, Frame::Padding(_)) {
                continue;
            }
            for cut in 1..bytes.len() {
                let rest = match direction {
                    Direction::Forward => &bytes[..bytes.len() - cut],
                    Direction::Backward => &bytes[cut..],
                };
                let error = only(direction, rest).unwrap_err();
                assert_eq!(
                    error.code,
                    TransportErrorCode::FRAME_ENCODING_ERROR,
                    "{direction:?} {frame:?} - {cut}"
                );
            }
        }
    }
}

#[test]
fn a_frame_that_does_not_fit_writes_nothing() {
    for (frame, ..) in samples() {
        let mut buf = vec![0xaa; frame.size() - 1];
        let mut writer = Writer::new(&mut buf, Direction::Forward);
        assert_eq!(writer.frame(&frame), Err(Full));
        assert_eq!(writer.len(), 0);
        assert!(buf.iter().all(|&byte| byte == 0xaa));
    }
}

#[test]
fn packets_that_may_hold_a_frame() {
    let kinds = [PacketKind::Initial, PacketKind::Handshake, PacketKind::ZeroRtt, PacketKind::OneRtt];
    for (frame, _, allowed) in samples() {
        let marks: String = kinds
            .iter()
            .zip("IH01".chars())
            .map(|(&kind, mark)| if frame.allowed_in(kind) { mark } else { '_' })
            .collect();
        assert_eq!(marks, allowed, "{frame:?}");
        assert!(!frame.allowed_in(PacketKind::Retry) && !frame.allowed_in(PacketKind::VersionNegotiation));
    }
}

#[test]
fn ack_eliciting_and_probing_frames() {
    let kinds = |test: fn(&Frame<'_>) -> bool| -> Vec<u64> {
        samples().iter().filter(|(frame, ..)| test(frame)).map(|(frame, ..)| frame.kind()).collect()
    };
    assert_eq!(kinds(|frame| !frame.is_ack_eliciting()), [0x00, 0x02, 0x03, 0x1c, 0x1d, 0x3e, 0x3f]);
    assert_eq!(kinds(|frame| frame.is_probing()), [0x00, 0x18, 0x1a, 0x1b, 0x3e78]);
}

/// Checks that the offset is 0 without the OFF bit, and that the data extends to the end of the packet
/// without the LEN bit (RFC 9000 §19.8).
#[test]
fn streams_and_datagrams_without_optional_fields() {
    let stream = |offset, fin| Frame::Stream(Stream { id: StreamId::from_u64(5), offset, fin, data: b"hi" });
    for (kind, forward, backward, frame) in [
        (0x08, "08 05 6869", "6869 14 20", stream(0, false)),
        (0x09, "09 05 6869", "6869 14 24", stream(0, true)),
        (0x0a, "0a 05 02 6869", "6869 08 14 28", stream(0, false)),
        (0x0c, "0c 05 07 6869", "6869 1c 14 30", stream(7, false)),
        (0x30, "30 6869", "6869 c0", Frame::Datagram { data: b"hi" }),
    ] {
        assert_eq!(only(Direction::Forward, &hex(forward)), Ok(frame), "{kind:#x}");
        assert_eq!(only(Direction::Backward, &hex(backward)), Ok(frame), "{kind:#x}");
    }
}

/// Field that a peer may send.
#[derive(Clone, Copy)]
enum Item {
    V(u64),
    /// Varint that does not have the shortest encoding.
    Long(u64),
    B(&'static [u8]),
}

/// Returns a payload whose fields a reader of this direction reads in the order of `items`.
fn payload(direction: Direction, items: &[Item]) -> Vec<u8> {
    let field = |item: &Item| match *item {
        Item::V(value) => {
            written(direction, |writer| writer.region(varint_len(value)).unwrap().varint(value))
        }
        Item::Long(value) => written(direction, |writer| writer.region(8).unwrap().varint_of(value, 8)),
        Item::B(bytes) => bytes.to_vec(),
    };
    match direction {
        Direction::Forward => items.iter().flat_map(field).collect(),
        Direction::Backward => items.iter().rev().flat_map(field).collect(),
    }
}

#[test]
fn wrong_input_has_its_exact_code_in_both_directions() {
    use Item::{B, Long, V};
    const ENCODING: u64 = 0x7;
    const VIOLATION: u64 = 0xa;
    let cases: &[(&str, u64, u64, &[Item])] = &[
        ("no frame", VIOLATION, 0, &[]),
        ("unknown frame", ENCODING, 0x21, &[V(0x21)]),
        ("unknown frame of two bytes", ENCODING, 0x1234, &[V(0x1234), V(1)]),
        ("unknown frame of eight bytes", ENCODING, MAX_VARINT, &[V(MAX_VARINT)]),
        ("type not in its shortest encoding", VIOLATION, 0x01, &[Long(0x01)]),
        ("bidirectional streams > 2^60", ENCODING, 0x12, &[V(0x12), V(MAX_STREAM_COUNT + 1)]),
        ("unidirectional streams > 2^60", ENCODING, 0x13, &[V(0x13), V(MAX_STREAM_COUNT + 1)]),
        ("bidirectional streams blocked > 2^60", ENCODING, 0x16, &[V(0x16), V(MAX_STREAM_COUNT + 1)]),
        ("unidirectional streams blocked > 2^60", ENCODING, 0x17, &[V(0x17), V(MAX_VARINT)]),
        ("retire prior to > sequence", ENCODING, 0x18, &[V(0x18), V(1), V(2), B(&[1]), B(&[7]), B(&[0; 16])]),
        (
            "the same on a path",
            ENCODING,
            0x3e78,
            &[V(0x3e78), V(0), V(1), V(2), B(&[1]), B(&[7]), B(&[0; 16])],
        ),
        ("connection ID of length 0", ENCODING, 0x18, &[V(0x18), V(1), V(0), B(&[0]), B(&[0; 16])]),
        (
            "connection ID of length 21",
            ENCODING,
            0x18,
            &[V(0x18), V(1), V(0), B(&[21]), B(&[0; 21]), B(&[0; 16])],
        ),
        (
            "path's connection ID of length 0",
            ENCODING,
            0x3e78,
            &[V(0x3e78), V(1), V(1), V(0), B(&[0]), B(&[0; 16])],
        ),
        ("empty token", ENCODING, 0x07, &[V(0x07), V(0)]),
        ("stream beyond 2^62 - 1", ENCODING, 0x0e, &[V(0x0e), V(0), V(MAX_VARINT), V(1), B(&[1])]),
        ("stream without length beyond it", ENCODING, 0x0c, &[V(0x0c), V(0), V(MAX_VARINT), B(&[1])]),
        ("crypto beyond 2^62 - 1", ENCODING, 0x06, &[V(0x06), V(MAX_VARINT), V(1), B(&[1])]),
        ("length beyond the packet", ENCODING, 0x0a, &[V(0x0a), V(0), V(3), B(&[1, 2])]),
        ("length beyond memory", ENCODING, 0x31, &[V(0x31), V(MAX_VARINT)]),
        ("first range below 0", ENCODING, 0x02, &[V(0x02), V(1), V(0), V(0), V(2)]),
        ("gap below 0", ENCODING, 0x02, &[V(0x02), V(9), V(0), V(1), V(0), V(8), V(0)]),
        ("range below 0", ENCODING, 0x02, &[V(0x02), V(9), V(0), V(1), V(0), V(0), V(8)]),
        (
            "ranges that overflow",
            ENCODING,
            0x02,
            &[V(0x02), V(9), V(0), V(1), V(0), V(MAX_VARINT), V(MAX_VARINT)],
        ),
        ("more ranges than bytes", ENCODING, 0x02, &[V(0x02), V(9), V(0), V(MAX_VARINT), V(0), V(0), V(0)]),
        ("PATH_ACK of path 2^32", VIOLATION, 0x3e, &[V(0x3e), V(1 << 32), V(9), V(0), V(0), V(0)]),
        ("PATH_ABANDON of path 2^32", VIOLATION, 0x3e75, &[V(0x3e75), V(1 << 32), V(0)]),
        ("MAX_PATH_ID 2^32", VIOLATION, 0x3e7a, &[V(0x3e7a), V(1 << 32)]),
        ("PATHS_BLOCKED 2^32", VIOLATION, 0x3e7b, &[V(0x3e7b), V(1 << 32)]),
        ("delay of 2^14 ms", VIOLATION, 0xaf, &[V(0xaf), V(0), V(1), V(16_384_000), V(1)]),
    ];
    for direction in BOTH {
        for (name, code, frame_type, items) in cases {
            let bytes = payload(direction, items);
            let error = only(direction, &bytes).unwrap_err();
            assert_eq!(
                (error.code.0, error.frame_type),
                (*code, *frame_type),
                "{name}, {direction:?}: {error:?}"
            );
        }
    }
}

/// Checks that the largest valid values are accepted.
#[test]
fn limits_are_inclusive() {
    use Item::{B, V};
    let cases: &[&[Item]] = &[
        &[V(0x12), V(MAX_STREAM_COUNT)],
        &[V(0x17), V(MAX_STREAM_COUNT)],
        &[V(0x18), V(2), V(2), B(&[20]), B(&[7; 20]), B(&[0; 16])],
        &[V(0x0e), V(0), V(MAX_VARINT - 1), V(1), B(&[1])],
        &[V(0x02), V(9), V(0), V(1), V(0), V(7), V(0)],
        &[V(0x3e7a), V(u64::from(u32::MAX))],
        &[V(0x3e75), V(u64::from(u32::MAX)), V(0)],
        &[V(0xaf), V(0), V(1), V(16_383_999), V(1)],
    ];
    for direction in BOTH {
        for items in cases {
            only(direction, &payload(direction, items)).unwrap();
        }
    }
}

#[test]
fn nothing_is_read_after_an_error() {
    let mut frames = Frames::new(&[0x01, 0x21, 0x01], Direction::Forward);
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    assert!(frames.next().unwrap().is_err());
    assert_eq!(frames.next(), None);
}

#[test]
fn an_ack_takes_as_many_ranges_as_fit() {
    for direction in BOTH {
        for room in 0..32 {
            let mut buf = vec![0; room];
            let mut writer = Writer::new(&mut buf, direction);
            let result = write_ack(&mut writer, None, RANGES.into_iter(), 3, Some(ECN));
            // Eight bytes suffice for one range, and two more for each further range.
            let expected = if room < 8 { Err(Full) } else { Ok((1 + (room - 8) / 2).min(3)) };
            assert_eq!(result, expected, "{room} bytes");
            if let Ok(count) = result {
                let Ok(Frame::Ack(ack)) = only(direction, writer.written()) else {
                    panic!("an ACK is read back")
                };
                assert!(ack.ranges().eq(RANGES.into_iter().take(count)));
                assert_eq!((ack.largest, ack.delay, ack.ecn), (12, 3, Some(ECN)));
            } else {
                assert_eq!(writer.len(), 0);
            }
        }
    }
}

#[test]
fn an_ack_without_ranges_is_not_written() {
    let mut buf = [0; 16];
    let mut writer = Writer::new(&mut buf, Direction::Forward);
    assert_eq!(write_ack(&mut writer, None, core::iter::empty(), 0, None), Ok(0));
    assert!(writer.is_empty());
}

/// Checks that 64 pairs, which need a count of two bytes, leave room for the larger count.
#[test]
fn the_range_count_grows_with_the_ranges() {
    let ranges = (0..100u64).rev().map(|n| n * 3..=n * 3);
    for room in 120..240 {
        let mut buf = vec![0; room];
        let mut writer = Writer::new(&mut buf, Direction::Forward);
        let count = write_ack(&mut writer, None, ranges.clone(), 0, None).unwrap();
        let Ok(Frame::Ack(ack)) = only(Direction::Forward, writer.written()) else {
            panic!("an ACK is read back")
        };
        assert!(ack.ranges().eq(ranges.clone().take(count)));
        assert!(writer.remaining() < 3 || count == 100, "{room} bytes, {count} ranges");
    }
}

/// Checks that two more bytes of room permit no more data where the length field grows to four bytes.
#[test]
fn data_fills_the_room_where_the_length_grows() {
    let short = 1 + 2 + 0x3fff;
    let lens = (short - 1..short + 4).map(|room| max_datagram_len(room).unwrap());
    assert!(lens.eq([0x3ffe, 0x3fff, 0x3fff, 0x3fff, 0x4000]));
}

fn varint() -> impl Strategy<Value = u64> {
    (0..=MAX_VARINT, 0..62u32).prop_map(|(value, shift)| value >> shift)
}

fn stream_id() -> impl Strategy<Value = StreamId> {
    varint().prop_map(StreamId::from_u64)
}

fn data() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..300).prop_map(|bytes| &*Vec::leak(bytes))
}

fn dir() -> impl Strategy<Value = Dir> {
    prop_oneof![Just(Dir::Bi), Just(Dir::Uni)]
}

fn path() -> impl Strategy<Value = PathId> {
    any::<u32>().prop_map(PathId)
}

fn new_connection_id() -> impl Strategy<Value = Frame<'static>> {
    (proptest::option::of(path()), varint(), varint(), vec(any::<u8>(), 1..=20), any::<[u8; 16]>()).prop_map(
        |(path, a, b, cid, token)| {
            let cid = ConnectionId::new(&cid).unwrap();
            let (sequence, retire_prior_to) = (a.max(b), a.min(b));
            Frame::NewConnectionId(NewConnectionId {
                path,
                sequence,
                retire_prior_to,
                cid,
                token: ResetToken(token),
            })
        },
    )
}

fn code() -> impl Strategy<Value = VarInt> {
    varint().prop_map(|code| VarInt::try_from(code).unwrap())
}

fn close() -> impl Strategy<Value = Frame<'static>> {
    (any::<bool>(), code(), varint(), data()).prop_map(|(application, code, frame_type, reason)| {
        let frame_type = if application { 0 } else { frame_type };
        Frame::ConnectionClose(ConnectionClose { application, code, frame_type, reason })
    })
}

/// Returns any frame but ACK, which has its own test.
fn frame() -> impl Strategy<Value = Frame<'static>> {
    use Frame::*;
    let offset = || varint().prop_map(|offset| offset.min(MAX_VARINT - 300));
    let count = || varint().prop_map(|count| count.min(MAX_STREAM_COUNT));
    let streams = prop_oneof![
        (stream_id(), code(), varint()).prop_map(|(id, code, final_size)| ResetStream {
            id,
            code,
            final_size
        }),
        (stream_id(), code()).prop_map(|(id, code)| StopSending { id, code }),
        (offset(), data()).prop_map(|(offset, data)| Crypto { offset, data }),
        (stream_id(), offset(), any::<bool>(), data())
            .prop_map(|(id, offset, fin, data)| Stream(super::Stream { id, offset, fin, data })),
        varint().prop_map(MaxData),
        (stream_id(), varint()).prop_map(|(id, maximum)| MaxStreamData { id, maximum }),
        (dir(), count()).prop_map(|(dir, maximum)| MaxStreams { dir, maximum }),
        varint().prop_map(DataBlocked),
        (stream_id(), varint()).prop_map(|(id, maximum)| StreamDataBlocked { id, maximum }),
        (dir(), count()).prop_map(|(dir, maximum)| StreamsBlocked { dir, maximum }),
        data().prop_map(|data| Datagram { data }),
    ];
    let others = prop_oneof![
        (1..50usize).prop_map(Padding),
        Just(Ping),
        Just(HandshakeDone),
        Just(ImmediateAck),
        data().prop_filter("not empty", |token| !token.is_empty()).prop_map(|token| NewToken { token }),
        new_connection_id(),
        (proptest::option::of(path()), varint())
            .prop_map(|(path, sequence)| RetireConnectionId { path, sequence }),
        any::<[u8; 8]>().prop_map(PathChallenge),
        any::<[u8; 8]>().prop_map(PathResponse),
        close(),
        (varint(), varint(), 0..16_384_000u64, varint()).prop_map(
            |(sequence, threshold, max_ack_delay_us, reordering_threshold)| AckFrequency {
                sequence,
                threshold,
                max_ack_delay_us,
                reordering_threshold,
            }
        ),
        (path(), code()).prop_map(|(path, code)| PathAbandon { path, code }),
        (path(), any::<bool>(), varint()).prop_map(|(path, available, sequence)| PathStatus {
            path,
            available,
            sequence
        }),
        path().prop_map(|path| MaxPathId(path.0.into())),
        path().prop_map(|path| PathsBlocked(path.0.into())),
        (path(), varint()).prop_map(|(path, next_sequence)| PathCidsBlocked { path, next_sequence }),
        (any::<(bool, bool)>(), varint(), any::<(std::net::Ipv4Addr, u16)>()).prop_map(
            |((preferred, retire), sequence, (ip, port))| AlternativeV4Address {
                flags: AddressFlags { preferred, retire },
                sequence,
                address: SocketAddrV4::new(ip, port),
            }
        ),
        (any::<(bool, bool)>(), varint(), any::<(std::net::Ipv6Addr, u16)>()).prop_map(
            |((preferred, retire), sequence, (ip, port))| AlternativeV6Address {
                flags: AddressFlags { preferred, retire },
                sequence,
                address: SocketAddrV6::new(ip, port, 0, 0),
            }
        ),
    ];
    prop_oneof![streams, others]
}

/// Returns ranges in descending order, made of random gaps and lengths.
fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    vec((0..1000u64, 0..100_000u64), 1..80).prop_map(|steps| {
        let mut next = 0;
        let mut ranges: Vec<_> = steps
            .into_iter()
            .map(|(gap, len)| {
                let start = next + gap;
                next = start + len + 2;
                start..=start + len
            })
            .collect();
        ranges.reverse();
        ranges
    })
}

proptest! {
    #[test]
    fn frames_round_trip(frame in frame()) {
        for direction in BOTH {
            let bytes = bytes_of(direction, &frame);
            prop_assert_eq!(only(direction, &bytes), Ok(frame));
        }
    }

    #[test]
    fn payloads_round_trip(frames in vec(frame().prop_filter("runs merge", |f| !matches!(f, Frame::Padding(_))), 1..10)) {
        for direction in BOTH {
            let bytes = written(direction, |writer| frames.iter().for_each(|frame| writer.frame(frame).unwrap()));
            let mut read: Vec<_> = Frames::new(&bytes, direction).map(Result::unwrap).collect();
            if direction == Direction::Backward {
                read.reverse();
            }
            prop_assert_eq!(&read, &frames);
        }
    }

    #[test]
    fn acks_round_trip(
        ranges in ranges(),
        path in proptest::option::of(path()),
        delay in varint(),
        counts in proptest::option::of((varint(), varint(), varint())),
    ) {
        let ecn = counts.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        for direction in BOTH {
            let bytes = written(direction, |writer| {
                assert_eq!(write_ack(writer, path, ranges.iter().cloned(), delay, ecn), Ok(ranges.len()));
            });
            let frame = only(direction, &bytes).unwrap();
            let Frame::Ack(ack) = frame else { panic!("an ACK is read back") };
            prop_assert_eq!((ack.path, ack.largest, ack.delay, ack.ecn), (path, *ranges[0].end(), delay, ecn));
            prop_assert!(ack.ranges().eq(ranges.iter().cloned()));
            // The frame is the same after it is written and read again, in either direction.
            for other in BOTH {
                let again = bytes_of(other, &frame);
                prop_assert!(same(&only(other, &again).unwrap(), &frame));
            }
        }
    }

    #[test]
    fn data_writers_fill_the_room_exactly(remaining in 0..40_000usize, id in stream_id(), offset in varint()) {
        let len = max_stream_len(remaining, id, offset);
        if len > 0 {
            let stream = |len: usize| written_in(remaining, |w| write_stream(w, id, offset, false, len, |to| to.fill(7)));
            prop_assert!(stream(len) && !stream(len + 1));
        }
        let len = max_crypto_len(remaining, offset);
        if len > 0 {
            let crypto = |len: usize| written_in(remaining, |w| write_crypto(w, offset, len, |to| to.fill(7)));
            prop_assert!(crypto(len) && !crypto(len + 1));
        }
        let datagram = |len: usize| written_in(remaining, |w| write_datagram(w, len, |to| to.fill(7)));
        match max_datagram_len(remaining) {
            Some(len) => prop_assert!(datagram(len) && !datagram(len + 1)),
            None => prop_assert!(!datagram(0)),
        }
    }

    #[test]
    fn data_writers_write_the_frame(id in stream_id(), offset in varint(), fin: bool, data in data()) {
        let offset = offset.min(MAX_VARINT - 300);
        for direction in BOTH {
            let stream = written(direction, |w| {
                write_stream(w, id, offset, fin, data.len(), |to| to.copy_from_slice(data)).unwrap();
            });
            prop_assert_eq!(only(direction, &stream), Ok(Frame::Stream(Stream { id, offset, fin, data })));
            let crypto = written(direction, |w| {
                write_crypto(w, offset, data.len(), |to| to.copy_from_slice(data)).unwrap();
            });
            prop_assert_eq!(only(direction, &crypto), Ok(Frame::Crypto { offset, data }));
            let datagram = written(direction, |w| {
                write_datagram(w, data.len(), |to| to.copy_from_slice(data)).unwrap();
            });
            prop_assert_eq!(only(direction, &datagram), Ok(Frame::Datagram { data }));
        }
    }

    /// Checks that any bytes yield frames or one error, and that frames can be written and read again in both
    /// directions.
    #[test]
    fn any_payload_is_read_without_panic(bytes in vec(prop_oneof![any::<u8>(), 0..0x20u8], 0..200)) {
        for direction in BOTH {
            for frame in Frames::new(&bytes, direction).flatten() {
                if let Frame::Ack(ack) = frame {
                    let mut below = ack.largest + 2;
                    for range in ack.ranges() {
                        prop_assert!(range.start() <= range.end() && range.end() + 1 < below);
                        below = *range.start();
                    }
                }
                for other in BOTH {
                    let again = bytes_of(other, &frame);
                    prop_assert!(same(&only(other, &again).unwrap(), &frame));
                }
            }
        }
    }
}

fn written_in(room: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> bool {
    let mut buf = vec![0; room];
    let mut writer = Writer::new(&mut buf, Direction::Forward);
    write(&mut writer).is_ok()
}
