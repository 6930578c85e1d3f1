//! Attacks of a peer, row by row of docs/threats.md: packets that are correctly sealed. The peer acknowledges nothing.

use std::ops::RangeInclusive;

use anabranch_wire::{
    ConnectionId, Dir, Direction, EcnCounts, Frame, NewConnectionId, PacketKind, PathId, ResetToken, Side,
    Stream, StreamId, TransportErrorCode as Code, VarInt, Writer, write_ack,
};

use super::super::injector::encode;
use super::super::pair::direction;
use super::world::World;
use super::{Attack, KIB};
use crate::Numbering;
use crate::connection::Forged;

/// Payload that fits into a packet on any path, in bytes.
const ROOM: usize = 1_100;

const ONE_SPACE_A_PATH: &[Option<Numbering>] = &[None, Some(Numbering::Multiple)];
const MULTIPLE: &[Option<Numbering>] = &[Some(Numbering::Multiple)];
const SINGLE: &[Option<Numbering>] = &[Some(Numbering::Single)];
const EITHER: &[Option<Numbering>] = &[Some(Numbering::Multiple), Some(Numbering::Single)];

/// All attacks. Limits of work are about twice of what was seen.
pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("1", "PATH_CHALLENGE", 10_000, |world, _| fill(world, Frame::PathChallenge([5; 8]))),
    Attack::new("2", "NEW_CONNECTION_ID that retires all before", 10_000, retire_all)
        .ends(Code::CONNECTION_ID_LIMIT_ERROR),
    Attack::new("3", "PING", 10_000, |world, _| fill(world, Frame::Ping)).work(50.0),
    Attack::new("3", "MAX_DATA", 10_000, |world, n| fill(world, Frame::MaxData((1 << 30) + n))).work(12.0),
    Attack::new("3", "MAX_STREAMS", 10_000, |world, n| {
        fill(world, Frame::MaxStreams { dir: Dir::Bi, maximum: (1 << 20) + n });
    })
    .work(18.0),
    Attack::new("3", "DATA_BLOCKED", 10_000, |world, _| fill(world, Frame::DataBlocked(1 << 30))).work(12.0),
    Attack::new("3", "STREAMS_BLOCKED", 10_000, |world, _| {
        fill(world, Frame::StreamsBlocked { dir: Dir::Uni, maximum: 128 });
    })
    .work(80.0),
    Attack::new("3", "IMMEDIATE_ACK", 10_000, |world, _| fill(world, Frame::ImmediateAck)).work(60.0),
    Attack::new("3", "NEW_TOKEN", 10_000, |world, _| {
        fill(world, Frame::NewToken { token: b"another token" });
    })
    .on(&[Side::Client])
    .work(12.0),
    Attack::new("4", "every other packet number", 1_000_000, every_other).with(ONE_SPACE_A_PATH),
    Attack::new("M12", "every other packet number", 1_000_000, every_other).with(SINGLE).memory(256 * KIB),
    Attack::new("5", "ACK of packets that were never sent", 1_000, |world, n| {
        one_rtt(world, &ack(n..=n + 1_000));
    })
    .ends(Code::PROTOCOL_VIOLATION),
    Attack::new("6", "single bytes with gaps", 20_000, |world, n| {
        stream_bytes(world, 1 + n * fragments() * 2, 2);
    })
    .memory(256 * KIB)
    .work(40.0)
    .ends(Code::INTERNAL_ERROR),
    Attack::new("6", "single bytes in reverse order", 10_480, |world, n| {
        stream_bytes(world, (1 << 20) - (n + 1) * fragments(), 1);
    })
    .memory(3 << 20)
    .work(40.0),
    Attack::new("7", "data beyond the stream's window", 1_000, |world, n| {
        stream(world, 0, (1 << 20) - 2_000 + 1_000 * n, &[1; 1_000]);
    })
    .ends(Code::FLOW_CONTROL_ERROR),
    Attack::new("8", "CRYPTO with gaps", 1_000, |world, n| {
        let frames: Vec<Frame<'_>> =
            (0..100).map(|at| Frame::Crypto { offset: 100_000 + 2 * (100 * n + at), data: b"x" }).collect();
        one_rtt(world, &encode(&frames));
    })
    .work(16.0)
    .ends(Code::CRYPTO_BUFFER_EXCEEDED),
    Attack::new("12", "streams that are reset at once", 250_000, |world, n| {
        let streams = 4 * n..4 * n + 4;
        let frames: Vec<Frame<'_>> = streams.map(|stream| reset(world, stream)).collect();
        one_rtt(world, &encode(&frames));
    })
    .memory(128 * KIB)
    .acknowledges(),
    Attack::new("12", "requests whose responses are stopped at once", 250_000, |world, n| {
        let code = VarInt::from_u32(1);
        let streams = world.attacker().streams();
        for _ in 0..fragments().min(4) {
            // There is none as long as the responses' ends are not acknowledged.
            let Some(id) = streams.open(Dir::Bi) else { break };
            streams.write(id, &n.to_be_bytes()).unwrap();
            streams.finish(id).unwrap();
            streams.stop(id, code).unwrap();
        }
    })
    .memory(512 * KIB)
    .acknowledges(),
    Attack::new("13", "RESET_STREAM beyond the limit", 1_000, |world, n| {
        let frame = reset(world, 128 + n);
        one_rtt(world, &encode(&[frame]));
    })
    .ends(Code::STREAM_LIMIT_ERROR),
    Attack::new("22", "packets that cannot be decrypted", 100_000, |world, n| {
        let now = world.now;
        let mut bytes = world.attacker().forge(now, &Forged::new(PacketKind::OneRtt, &[n as u8; ROOM]));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        world.send(None, bytes);
    }),
    Attack::new("26", "ACK with impossible ECN counts", 10_000, |world, n| {
        let ecn = EcnCounts { ect0: 1 << 40, ect1: n, ce: 1 << 50 };
        one_rtt(world, &ack_with(0..=0, Some(ecn)));
    }),
    Attack::new("M1", "MAX_PATH_ID", 10_000, |world, n| fill(world, Frame::MaxPathId(4 + n % 1_000)))
        .with(MULTIPLE)
        .work(80.0),
    Attack::new("M1", "MAX_PATH_ID, which this numbering has not", 100, |world, n| {
        fill(world, Frame::MaxPathId(4 + n));
    })
    .with(SINGLE)
    .work(40.0)
    .ends(Code::PROTOCOL_VIOLATION),
    Attack::new("M5", "PATH_ABANDON of path after path", 1_000, abandon)
        .with(MULTIPLE)
        .ends(Code::PROTOCOL_VIOLATION),
    Attack::new("M5", "PATH_ABANDON of path after path, by a server", 1_000, abandon)
        .with(SINGLE)
        .on(&[Side::Client])
        .ends(Code::PROTOCOL_VIOLATION),
    Attack::new("M5", "PATH_ABANDON of path after path, by a client", 10_000, abandon)
        .with(SINGLE)
        .on(&[Side::Server]),
    Attack::new("M9", "statuses that are old", 10_000, |world, n| {
        fill(world, Frame::PathStatus { path: PathId(0), available: n % 2 == 0, sequence: 0 });
    })
    .with(EITHER)
    .work(80.0),
    Attack::new("M9", "PATH_CIDS_BLOCKED", 10_000, |world, _| {
        fill(world, Frame::PathCidsBlocked { path: PathId(0), next_sequence: 0 });
    })
    .with(MULTIPLE)
    .work(80.0),
    Attack::new("V3", "a byte near the end of many streams' windows", 10_000, |world, n| {
        stream(world, n % 16, (3 << 19) / 16 - 1, b"x");
    })
    .memory(512 * KIB),
];

/// Returns the number of single bytes in a packet. A packet of VReverso has one STREAM frame at most.
fn fragments() -> u64 {
    match direction() {
        Direction::Forward => 100,
        Direction::Backward => 1,
    }
}

fn forge(world: &mut World, forged: &Forged<'_>) {
    let now = world.now;
    let bytes = world.attacker().forge(now, forged);
    world.send(None, bytes);
}

fn one_rtt(world: &mut World, payload: &[u8]) {
    forge(world, &Forged::new(PacketKind::OneRtt, payload));
}

/// Sends a packet that is full of this frame.
fn fill(world: &mut World, frame: Frame<'_>) {
    one_rtt(world, &encode(&vec![frame; ROOM / frame.size()]));
}

/// Sends a packet whose predecessor is lost.
fn every_other(world: &mut World, _: u64) {
    let (now, payload) = (world.now, encode(&[Frame::Ping, Frame::Padding(3)]));
    world.attacker().forge(now, &Forged::new(PacketKind::OneRtt, &payload));
    one_rtt(world, &payload);
}

fn retire_all(world: &mut World, n: u64) {
    let sequence = 100 + n;
    let cid = ConnectionId::new(&sequence.to_be_bytes()).unwrap();
    let token = ResetToken([n as u8; 16]);
    let issued = NewConnectionId { path: None, sequence, retire_prior_to: sequence, cid, token };
    one_rtt(world, &encode(&[Frame::NewConnectionId(issued)]));
}

fn abandon(world: &mut World, n: u64) {
    let path = PathId(1 + u32::try_from(n).unwrap());
    one_rtt(world, &encode(&[Frame::PathAbandon { path, code: VarInt::from_u32(0) }]));
}

/// Returns a RESET_STREAM of one of the attacker's streams, which nothing has been sent on.
fn reset(world: &World, index: u64) -> Frame<'static> {
    let id = StreamId::new(world.role.peer(), Dir::Uni, index);
    Frame::ResetStream { id, code: VarInt::from_u32(1), final_size: 0 }
}

fn ack(range: RangeInclusive<u64>) -> Vec<u8> {
    ack_with(range, None)
}

fn ack_with(range: RangeInclusive<u64>, ecn: Option<EcnCounts>) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, None, [range].into_iter(), 0, ecn).unwrap();
    writer.written().to_vec()
}

/// Sends data of a unidirectional stream.
fn stream(world: &mut World, index: u64, offset: u64, data: &[u8]) {
    let id = StreamId::new(world.role.peer(), Dir::Uni, index);
    one_rtt(world, &encode(&[Frame::Stream(Stream { id, offset, data, fin: false })]));
}

/// Sends single bytes of a stream from `first` on, with this distance between them. Its first byte never arrives.
fn stream_bytes(world: &mut World, first: u64, distance: u64) {
    let id = StreamId::new(world.role.peer(), Dir::Uni, 0);
    let offsets = (0..fragments()).map(|at| first + at * distance).rev();
    let frames: Vec<Frame<'_>> =
        offsets.map(|offset| Frame::Stream(Stream { id, offset, data: b"x", fin: false })).collect();
    one_rtt(world, &encode(&frames));
}
