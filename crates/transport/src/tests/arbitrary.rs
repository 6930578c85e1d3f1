//! Well-formed frames in arbitrary combinations: the connection continues or closes with an error code.

use std::time::Duration;

use anabranch_wire::{
    ConnectionId, Dir, Frame, NewConnectionId, PacketKind, ResetToken, Side, Stream, StreamId, VarInt,
    Writer, write_ack,
};
use proptest::prelude::*;

use super::attacks::is_transport_code;
use super::injector::encode;
use super::pair::{Pair, direction};
use crate::ConnectionError;
use crate::connection::Forged;

static DATA: [u8; 256] = [7; 256];

fn stream_id() -> impl Strategy<Value = StreamId> {
    prop_oneof![0..24u64, 500..520u64].prop_map(StreamId::from_u64)
}

/// Returns mostly small values, so that frames refer to the same objects.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![0..16u64, 0..5_000u64, 0..anabranch_wire::MAX_VARINT]
}

fn code() -> impl Strategy<Value = VarInt> {
    value().prop_map(|code| VarInt::try_from(code).unwrap())
}

fn dir() -> impl Strategy<Value = Dir> {
    prop_oneof![Just(Dir::Bi), Just(Dir::Uni)]
}

fn stream_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (stream_id(), value(), any::<bool>(), 0..100usize).prop_map(|(id, offset, fin, len)| {
            let offset = offset.min(anabranch_wire::MAX_VARINT - 100);
            encode(&[Frame::Stream(Stream { id, offset, fin, data: &DATA[..len] })])
        }),
        (stream_id(), code(), value()).prop_map(|(id, code, final_size)| encode(&[Frame::ResetStream {
            id,
            code,
            final_size
        }])),
        (stream_id(), code()).prop_map(|(id, code)| encode(&[Frame::StopSending { id, code }])),
        (stream_id(), value()).prop_map(|(id, maximum)| encode(&[Frame::MaxStreamData { id, maximum }])),
        (stream_id(), value()).prop_map(|(id, maximum)| encode(&[Frame::StreamDataBlocked { id, maximum }])),
        (dir(), 0..1u64 << 60).prop_map(|(dir, maximum)| encode(&[Frame::MaxStreams { dir, maximum }])),
        (dir(), 0..1u64 << 60).prop_map(|(dir, maximum)| encode(&[Frame::StreamsBlocked { dir, maximum }])),
    ]
}

fn connection_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(encode(&[Frame::Ping, Frame::ImmediateAck])),
        value().prop_map(|maximum| encode(&[Frame::MaxData(maximum)])),
        (0..3_000u64, 0..100usize)
            .prop_map(|(offset, len)| encode(&[Frame::Crypto { offset, data: &DATA[..len] }])),
        (0..12u64, 0..12u64, any::<bool>()).prop_map(|(sequence, back, other)| {
            let cid = ConnectionId::new(&[0x40 + sequence as u8 + u8::from(other); 8]).unwrap();
            let (retire_prior_to, token) = (sequence.saturating_sub(back), ResetToken([sequence as u8; 16]));
            encode(&[Frame::NewConnectionId(NewConnectionId {
                path: None,
                sequence,
                retire_prior_to,
                cid,
                token,
            })])
        }),
        (0..8u64).prop_map(|sequence| encode(&[Frame::RetireConnectionId { path: None, sequence }])),
        any::<[u8; 8]>().prop_map(|data| encode(&[Frame::PathChallenge(data), Frame::PathResponse(data)])),
        (0..200usize).prop_map(|len| encode(&[Frame::Datagram { data: &DATA[..len] }])),
        (value(), value(), 0..1u64 << 14, value()).prop_map(
            |(sequence, threshold, delay, reordering_threshold)| {
                let max_ack_delay_us = 1_000 + delay;
                encode(&[Frame::AckFrequency { sequence, threshold, max_ack_delay_us, reordering_threshold }])
            }
        ),
        (0..12u64, 0..8u64).prop_map(|(largest, len)| {
            let mut bytes = [0; 64];
            let mut writer = Writer::new(&mut bytes, direction());
            let range = largest.saturating_sub(len)..=largest;
            write_ack(&mut writer, None, [range].into_iter(), 9, None).unwrap();
            writer.written().to_vec()
        }),
    ]
}

/// Returns packets of a few frames each.
fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let frame = prop_oneof![stream_frame(), connection_frame()];
    let packet = prop::collection::vec(frame, 1..6).prop_map(|frames| frames.concat());
    prop::collection::vec(packet, 1..12)
}

fn survives(from: Side, packets: &[Vec<u8>]) {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    // Streams to which the frames may refer.
    for dir in [Dir::Bi, Dir::Uni] {
        let id = pair.end(from.peer()).streams().open(dir).unwrap();
        pair.end(from.peer()).streams().write(id, &DATA).unwrap();
    }
    for packet in packets {
        if pair.closed(from).is_some() {
            break;
        }
        let padded = [&packet[..], &[0; 4]].concat();
        pair.inject(from, &Forged::new(PacketKind::OneRtt, &padded));
        pair.run_for(Duration::from_millis(7));
        while pair.end(from.peer()).streams().accept(Dir::Bi).is_some() {}
    }
    pair.run_for(Duration::from_secs(4));
    match pair.closed(from.peer()) {
        Some(ConnectionError::Transport(error)) => assert!(is_transport_code(error.code), "{error}"),
        Some(ConnectionError::LocallyClosed | ConnectionError::TimedOut(_)) => panic!("for no reason"),
        _ => {}
    }
    // Finally both connections are removed.
    pair.run_for(Duration::from_secs(100));
    assert!(pair.client.is_empty() && pair.server.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn frames_that_make_no_sense_together(packets in packets(), client in any::<bool>()) {
        survives(if client { Side::Client } else { Side::Server }, &packets);
    }
}
