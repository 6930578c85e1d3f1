//! Headers that name the stream and the offset of their packet's data (VReverso): those sent, and those
//! rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{
    Announced, Dir, Frame, Frames, PacketKind, Side, Stream, StreamId, Time, TransportErrorCode as Code,
    Version,
};
use bytes::Bytes;

use super::injector::encode;
use super::pair::{Pair, over, pattern};
use crate::connection::Forged;
use crate::trace::{Observer, TraceEvent};

const REVERSO: Version = Version::REVERSO;

/// A sent data packet: its STREAM frames with offset and end, and its other frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Packet {
    streams: Vec<(StreamId, u64, u64)>,
    is_first: bool,
    datagrams: usize,
    others: usize,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Packet>>>);

impl Observer for Log {
    fn event(&mut self, _now: Time, event: &TraceEvent<'_>) {
        let TraceEvent::PacketSent(sent) = event else { return };
        if sent.kind != PacketKind::OneRtt {
            return;
        }
        let mut packet = Packet::default();
        let mut frames = Frames::new(sent.payload, sent.direction);
        while let Some(frame) = frames.next() {
            match frame.unwrap() {
                Frame::Stream(stream) => {
                    packet.streams.push((stream.id, stream.offset, stream.offset + stream.data.len() as u64));
                    packet.is_first = frames.is_over();
                }
                Frame::Datagram { .. } => packet.datagrams += 1,
                _ => packet.others += 1,
            }
        }
        self.0.lock().unwrap().push(packet);
    }
}

fn connected() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(pair.client().version(), REVERSO);
    pair
}

#[test]
fn one_stream_frame_leads_and_no_datagram_is_beside_it() {
    over(REVERSO, || {
        let mut pair = connected();
        let log = Log::default();
        let now = pair.now;
        pair.server().set_observer(now, Box::new(log.clone()));
        let mut count = 0;
        pair.network = Some(Box::new(move |_, flying| {
            count += 1;
            if count % 9 == 0 { Vec::new() } else { vec![flying] }
        }));
        let ids: Vec<StreamId> = (0..5).map(|_| pair.server().streams().open(Dir::Uni).unwrap()).collect();
        for id in &ids {
            pair.server().streams().write(*id, &pattern(40_000)).unwrap();
            pair.server().streams().finish(*id).unwrap();
        }
        let (mut received, mut done) = (BTreeMap::new(), BTreeSet::new());
        pair.run_until(Duration::from_secs(30), |pair| {
            let _ = pair.server().datagrams().send(Bytes::from_static(b"beside"));
            for id in &ids {
                if pair.read(Side::Client, *id, received.entry(*id).or_insert_with(Vec::new)) {
                    done.insert(*id);
                }
            }
            done.len() == ids.len()
        });
        assert!(received.values().all(|data| *data == pattern(40_000)));

        let packets = log.0.lock().unwrap();
        assert!(packets.iter().any(|packet| packet.datagrams > 0));
        let mut sent: BTreeMap<(StreamId, u64), u64> = BTreeMap::new();
        let mut repeated = 0;
        for packet in packets.iter() {
            assert!(packet.streams.len() <= 1, "{packet:?}");
            let Some(&(id, start, end)) = packet.streams.first() else { continue };
            assert!(packet.is_first && packet.datagrams == 0, "{packet:?}");
            if let Some(before) = sent.insert((id, start), end) {
                repeated += 1;
                assert_eq!((end, packet.others), (before, 0), "a repetition goes alone, as it went before");
            }
        }
        assert!(repeated > 5, "{repeated}");
        // No frame spans the data of two earlier frames.
        let starts: Vec<_> = sent.keys().copied().collect();
        for ((id, start), end) in &sent {
            assert!(!starts.iter().any(|(other, at)| other == id && at > start && at < end));
        }
    });
}

#[test]
fn stream_0_stands_for_none() {
    over(REVERSO, || {
        for most in [1, 2, 100] {
            let mut pair = Pair::with_transport(|transport| transport.streams.max_bidi = most);
            pair.connect();
            pair.run_until_quiet();
            for round in 1..5 {
                let id = pair.client().streams().open(Dir::Bi).unwrap();
                assert_eq!(id, StreamId::new(Side::Client, Dir::Bi, round));
                pair.client().streams().write(id, b"question").unwrap();
                pair.client().streams().finish(id).unwrap();
                pair.run_until_quiet();
                assert_eq!(pair.server().streams().accept(Dir::Bi), Some(id));
                let mut question = Vec::new();
                assert!(pair.read(Side::Server, id, &mut question));
                pair.server().streams().finish(id).unwrap();
                pair.run_until_quiet();
                assert!(pair.read(Side::Client, id, &mut Vec::new()));
                pair.run_until_quiet();
            }
            assert_eq!(
                pair.server().streams().open(Dir::Bi).unwrap(),
                StreamId::new(Side::Server, Dir::Bi, 0)
            );
        }
    });
}

/// Returns the code with which the peer rejects a packet with these frames and this description in its
/// header.
fn code(announced: Option<(u64, u64)>, frames: &[Frame<'_>]) -> Option<Code> {
    let mut pair = connected();
    let mut forged = Forged::new(PacketKind::OneRtt, &[]);
    let payload = encode(frames);
    forged.payload = &payload;
    forged.skip = 0;
    forged.announced = announced.map(|(stream, offset)| Announced {
        stream: StreamId::from_u64(stream),
        offset,
        distance: u64::MAX,
    });
    pair.inject(Side::Client, &forged);
    pair.run_until_quiet();
    pair.code_seen_by(Side::Client)
}

#[test]
fn a_header_that_is_not_true_of_its_packet_is_a_violation() {
    over(REVERSO, || {
        let stream = |id: u64, offset| {
            Frame::Stream(Stream { id: StreamId::from_u64(id), offset, fin: false, data: b"hello, world" })
        };
        // Valid: the named frame comes first, others follow.
        assert_eq!(code(Some((4, 70_000)), &[stream(4, 70_000), Frame::Ping]), None);
        for (announced, frames) in [
            (Some((8, 0)), &[stream(4, 0)][..]),
            (Some((4, 1)), &[stream(4, 0)]),
            (Some((4, 0)), &[stream(4, 1 << 20)]),
            (Some((4, 0)), &[Frame::Ping]),
            (Some((4, 0)), &[Frame::Ping, stream(4, 0)]),
            (Some((4, 0)), &[stream(8, 0), stream(4, 0)]),
            (Some((4, 0)), &[stream(4, 0), stream(4, 12)]),
            // Stream 0 does not exist in this version, so it cannot be named.
            (Some((0, 0)), &[stream(0, 0)]),
            (Some((0, 0)), &[stream(4, 0)]),
        ] {
            assert_eq!(code(announced, frames), Some(Code::PROTOCOL_VIOLATION), "{announced:?} {frames:?}");
        }
    });
}
