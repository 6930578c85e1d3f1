//! Invalid input, and the exact code that the peer receives for it, in both roles.

use anabranch_wire::{
    ConnectionClose, ConnectionId, Dir, Direction, Frame, MAX_VARINT, NewConnectionId, PacketKind,
    ResetToken, Side, Stream, StreamId, TransportErrorCode as Code, VarInt, Writer, write_ack,
};

use super::attacks::level_is_over;
use super::injector::{encode, joined, ping, varint};
use super::pair::{Pair, direction};
use crate::connection::Forged;

/// Function that creates the payload for the side that sends it.
type Payload = fn(Side) -> Vec<u8>;

fn stream(id: StreamId, offset: u64, data: &[u8]) -> Vec<u8> {
    encode(&[Frame::Stream(Stream { id, offset, fin: false, data })])
}

fn new_cid(sequence: u64, retire_prior_to: u64) -> Frame<'static> {
    let cid = ConnectionId::new(&[0xc0 + sequence as u8; 8]).unwrap();
    let token = ResetToken([sequence as u8; 16]);
    Frame::NewConnectionId(NewConnectionId { path: None, sequence, retire_prior_to, cid, token })
}

fn ack(range: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, None, [range].into_iter(), 0, None).unwrap();
    writer.written().to_vec()
}

/// Returns a frame with a one-byte type, raw fields of 8 bytes each, and `rest`, the last fields in the order
/// of reading.
fn raw_with(kind: u8, fields: &[u64], rest: &[&[u8]]) -> Vec<u8> {
    let kind = varint(kind.into(), 0);
    let fields: Vec<_> = fields.iter().map(|value| varint(*value, 3)).collect();
    let parts = [&kind[..]].into_iter().chain(fields.iter().map(Vec::as_slice)).chain(rest.iter().copied());
    joined(&parts.collect::<Vec<_>>())
}

/// Returns a frame with a one-byte type and raw fields of 8 bytes each.
fn raw(kind: u8, fields: &[u64]) -> Vec<u8> {
    raw_with(kind, fields, &[])
}

/// Returns a frame type in an encoding of this length, behind it three bytes of PADDING.
fn type_alone(kind: u64, log2_len: u8) -> Vec<u8> {
    [varint(kind, log2_len), vec![0; 3]].concat()
}

/// Returns a stream initiated by `side`; [`its`] returns one of its peer.
fn own(side: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(side, dir, index)
}

fn its(side: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(side.peer(), dir, index)
}

/// Returns the first bidirectional stream of `side` beyond its peer's limit. Where stream 0 does not exist, a
/// client has one more instead.
fn first_beyond(side: Side) -> StreamId {
    let instead = u64::from(side.is_client() && direction() == Direction::Backward);
    own(side, Dir::Bi, 128 + instead)
}

/// Returns an unidirectional stream of `side` far beyond its limit: the farthest that a header can name.
fn far_beyond(side: Side) -> StreamId {
    own(side, Dir::Uni, if direction() == Direction::Backward { (1 << 28) - 1 } else { 1 << 59 })
}

/// Sends the payload in a packet of this kind from this side, and returns the resulting error code.
fn code(kind: PacketKind, from: Side, payload: &[u8]) -> Option<Code> {
    let mut pair = Pair::new();
    pair.advance_to(kind, from);
    pair.inject(from, &Forged::new(kind, payload));
    pair.run_until_quiet();
    pair.code_seen_by(from)
}

fn check_both_roles(kind: PacketKind, rows: &[(&str, Payload, Code)]) {
    for (name, payload, expected) in rows {
        for from in [Side::Client, Side::Server] {
            assert_eq!(
                code(kind, from, &payload(from)),
                Some(*expected),
                "{name} from the {from:?} in {kind:?}"
            );
        }
    }
}

const FLOW: Code = Code::FLOW_CONTROL_ERROR;
const LIMIT: Code = Code::STREAM_LIMIT_ERROR;
const STATE: Code = Code::STREAM_STATE_ERROR;
const SIZE: Code = Code::FINAL_SIZE_ERROR;
const ENCODING: Code = Code::FRAME_ENCODING_ERROR;
const VIOLATION: Code = Code::PROTOCOL_VIOLATION;

#[test]
fn streams_out_of_bounds() {
    check_both_roles(
        PacketKind::OneRtt,
        &[
            ("data beyond the stream's limit", |s| stream(own(s, Dir::Bi, 1), 1 << 20, b"x"), FLOW),
            ("data beyond the connection's limit", |s| stream(own(s, Dir::Uni, 0), 1 << 30, b"x"), FLOW),
            ("data at the largest offset", |s| stream(own(s, Dir::Uni, 0), MAX_VARINT - 1, b"x"), FLOW),
            (
                "data beyond the largest offset",
                |s| raw_with(0x0c, &[own(s, Dir::Uni, 0).as_u64(), MAX_VARINT], &[b"x"]),
                ENCODING,
            ),
            (
                "final size beyond the limit",
                |s| {
                    encode(&[Frame::ResetStream {
                        id: own(s, Dir::Bi, 1),
                        code: VarInt::from_u32(0),
                        final_size: (1 << 20) + 1,
                    }])
                },
                FLOW,
            ),
            (
                "final size that changes",
                |s| {
                    let id = own(s, Dir::Uni, 0);
                    let fin = Frame::Stream(Stream { id, offset: 0, fin: true, data: b"abc" });
                    encode(&[fin, Frame::ResetStream { id, code: VarInt::from_u32(0), final_size: 4 }])
                },
                SIZE,
            ),
            ("bidirectional stream beyond the limit", |s| stream(first_beyond(s), 0, b"x"), LIMIT),
            ("unidirectional stream beyond the limit", |s| stream(far_beyond(s), 0, b"x"), LIMIT),
            (
                "RESET_STREAM beyond the limit",
                |s| {
                    encode(&[Frame::ResetStream {
                        id: first_beyond(s),
                        code: VarInt::from_u32(0),
                        final_size: 0,
                    }])
                },
                LIMIT,
            ),
            (
                "STOP_SENDING beyond the limit",
                |s| {
                    encode(&[Frame::StopSending {
                        id: own(s, Dir::Bi, 1_000_000),
                        code: VarInt::from_u32(0),
                    }])
                },
                LIMIT,
            ),
            ("MAX_STREAMS above 2^60", |_| raw(0x12, &[(1 << 60) + 1]), ENCODING),
            ("MAX_STREAMS above 2^60, unidirectional", |_| raw(0x13, &[(1 << 60) + 1]), ENCODING),
            ("STREAMS_BLOCKED above 2^60", |_| raw(0x16, &[(1 << 60) + 1]), ENCODING),
        ],
    );
}

#[test]
fn frames_that_do_not_fit_their_stream() {
    check_both_roles(
        PacketKind::OneRtt,
        &[
            ("STREAM on a send-only stream", |s| stream(its(s, Dir::Uni, 0), 0, b"x"), STATE),
            (
                "RESET_STREAM on a send-only stream",
                |s| {
                    encode(&[Frame::ResetStream {
                        id: its(s, Dir::Uni, 0),
                        code: VarInt::from_u32(0),
                        final_size: 0,
                    }])
                },
                STATE,
            ),
            (
                "STREAM_DATA_BLOCKED on a send-only stream",
                |s| encode(&[Frame::StreamDataBlocked { id: its(s, Dir::Uni, 0), maximum: 0 }]),
                STATE,
            ),
            ("STREAM on an uncreated stream", |s| stream(its(s, Dir::Bi, 1), 0, b"x"), STATE),
            (
                "STOP_SENDING on an uncreated stream",
                |s| encode(&[Frame::StopSending { id: its(s, Dir::Bi, 1), code: VarInt::from_u32(0) }]),
                STATE,
            ),
            (
                "STOP_SENDING on a receive-only stream",
                |s| encode(&[Frame::StopSending { id: own(s, Dir::Uni, 0), code: VarInt::from_u32(0) }]),
                STATE,
            ),
            (
                "MAX_STREAM_DATA on an uncreated stream",
                |s| encode(&[Frame::MaxStreamData { id: its(s, Dir::Bi, 1), maximum: 1 }]),
                STATE,
            ),
            (
                "MAX_STREAM_DATA on a receive-only stream",
                |s| encode(&[Frame::MaxStreamData { id: own(s, Dir::Uni, 0), maximum: 1 }]),
                STATE,
            ),
        ],
    );
}

#[test]
fn badly_formed_frames() {
    check_both_roles(
        PacketKind::OneRtt,
        &[
            ("unknown frame type", |_| type_alone(0x21, 0), ENCODING),
            ("unknown frame type of two bytes", |_| type_alone(0x3fff, 1), ENCODING),
            ("frame type in a long encoding", |_| type_alone(1, 1), VIOLATION),
            ("truncated frame", |_| joined(&[varint(6, 0), varint(0, 0), varint(9, 0), vec![0]]), ENCODING),
            ("no frame at all", |_| Vec::new(), VIOLATION),
            ("ACK below zero", |_| raw(0x02, &[3, 0, 0, 4]), ENCODING),
            (
                "Retire Prior To above the sequence number",
                |_| raw_with(0x18, &[3, 4], &[&[8], &[7; 8 + 16]]),
                ENCODING,
            ),
            ("connection ID of no length", |_| raw_with(0x18, &[3, 0], &[&[0], &[7; 16]]), ENCODING),
            ("connection ID of 21 bytes", |_| raw_with(0x18, &[3, 0], &[&[21], &[7; 21 + 16]]), ENCODING),
            ("NEW_TOKEN without a token", |_| joined(&[varint(7, 0), varint(0, 0)]), ENCODING),
        ],
    );
}

#[test]
fn frames_that_break_the_protocol() {
    check_both_roles(
        PacketKind::OneRtt,
        &[
            ("ACK of what was not sent", |_| ack(1 << 40..=1 << 40), VIOLATION),
            (
                "NEW_CONNECTION_ID that changes an ID",
                |_| {
                    let mut other = [0xcc; 8];
                    other[0] = 1;
                    let cid = ConnectionId::new(&other).unwrap();
                    let token = ResetToken([9; 16]);
                    encode(&[Frame::NewConnectionId(NewConnectionId {
                        path: None,
                        sequence: 1,
                        retire_prior_to: 0,
                        cid,
                        token,
                    })])
                },
                VIOLATION,
            ),
            (
                "more connection IDs than the limit",
                |_| encode(&[new_cid(8, 0)]),
                Code::CONNECTION_ID_LIMIT_ERROR,
            ),
            (
                "RETIRE_CONNECTION_ID never issued",
                |_| encode(&[Frame::RetireConnectionId { path: None, sequence: 99 }]),
                VIOLATION,
            ),
            (
                "RETIRE_CONNECTION_ID of the one in use",
                |_| encode(&[Frame::RetireConnectionId { path: None, sequence: 0 }]),
                VIOLATION,
            ),
            (
                "ACK_FREQUENCY below min_ack_delay",
                |_| {
                    let (sequence, threshold, max_ack_delay_us, reordering_threshold) = (1 << 20, 1, 0, 1);
                    encode(&[Frame::AckFrequency {
                        sequence,
                        threshold,
                        max_ack_delay_us,
                        reordering_threshold,
                    }])
                },
                VIOLATION,
            ),
            ("multipath frame without multipath", |_| encode(&[Frame::MaxPathId(3)]), VIOLATION),
            (
                "CRYPTO far ahead",
                |_| encode(&[Frame::Crypto { offset: 1 << 17, data: b"x" }]),
                Code::CRYPTO_BUFFER_EXCEEDED,
            ),
        ],
    );
    // A KeyUpdate message from the client. One from the server is tested in `wrong_handshake`, because the
    // server's session tickets already occupy offset 0 of its CRYPTO stream.
    let key_update = encode(&[Frame::Crypto { offset: 0, data: &[24, 0, 0, 1, 0] }]);
    assert_eq!(code(PacketKind::OneRtt, Side::Client, &key_update), Some(Code(0x10a)));
}

#[test]
fn frames_for_the_other_role() {
    for payload in
        [encode(&[Frame::NewToken { token: b"token" }]), encode(&[Frame::HandshakeDone, Frame::Padding(4)])]
    {
        assert_eq!(code(PacketKind::OneRtt, Side::Client, &payload), Some(VIOLATION));
        assert_eq!(code(PacketKind::OneRtt, Side::Server, &payload), None, "a server may");
    }
}

#[test]
fn a_datagram_that_was_not_negotiated() {
    for from in [Side::Client, Side::Server] {
        let mut pair = Pair::with_transport(|config| config.datagram_receive_buffer = 0);
        pair.advance_to(PacketKind::OneRtt, from);
        pair.inject_frames(from, &[Frame::Datagram { data: b"hello" }]);
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(from), Some(VIOLATION));
    }
}

#[test]
fn reserved_bits() {
    for kind in [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt] {
        for from in [Side::Client, Side::Server] {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            pair.inject(from, &Forged { reserved: true, ..Forged::new(kind, &ping()) });
            pair.run_until_quiet();
            assert_eq!(pair.code_seen_by(from), Some(VIOLATION), "{kind:?} from the {from:?}");
        }
    }
}

#[test]
fn frames_that_early_packets_must_not_carry() {
    let close = ConnectionClose { application: true, code: VarInt::from_u32(1), frame_type: 0, reason: b"" };
    let frames = [
        Frame::PathChallenge([7; 8]),
        Frame::PathResponse([7; 8]),
        Frame::Stream(Stream {
            id: StreamId::new(Side::Client, Dir::Bi, 0),
            offset: 0,
            fin: false,
            data: b"x",
        }),
        Frame::MaxData(1 << 40),
        Frame::MaxStreams { dir: Dir::Bi, maximum: 1 << 20 },
        Frame::DataBlocked(5),
        new_cid(1, 0),
        Frame::RetireConnectionId { path: None, sequence: 0 },
        Frame::NewToken { token: b"token" },
        Frame::HandshakeDone,
        Frame::Datagram { data: b"hello" },
        Frame::ConnectionClose(close),
        Frame::ImmediateAck,
    ];
    for kind in [PacketKind::Initial, PacketKind::Handshake] {
        for from in [Side::Client, Side::Server] {
            for frame in &frames {
                let payload = encode(&[*frame, Frame::Padding(4)]);
                assert_eq!(
                    code(kind, from, &payload),
                    Some(VIOLATION),
                    "{frame:?} from the {from:?} in {kind:?}"
                );
            }
            assert_eq!(code(kind, from, &[]), Some(VIOLATION), "nothing from the {from:?} in {kind:?}");
            let unknown = code(kind, from, &type_alone(0x21, 0));
            assert_eq!(unknown, Some(ENCODING), "unknown from the {from:?} in {kind:?}");
        }
    }
}

#[test]
fn crypto_far_ahead_at_each_level() {
    for kind in [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt] {
        for from in [Side::Client, Side::Server] {
            let far = encode(&[Frame::Crypto { offset: 64 * 1024 + 4096, data: b"x" }]);
            let expected = if level_is_over(kind, from) { VIOLATION } else { Code::CRYPTO_BUFFER_EXCEEDED };
            assert_eq!(code(kind, from, &far), Some(expected), "{kind:?} from the {from:?}");
        }
    }
}

#[test]
fn acknowledgments_of_early_packets_never_sent() {
    for kind in [PacketKind::Initial, PacketKind::Handshake] {
        for from in [Side::Client, Side::Server] {
            assert_eq!(code(kind, from, &ack(0..=77)), Some(VIOLATION), "{kind:?} from the {from:?}");
        }
    }
}
