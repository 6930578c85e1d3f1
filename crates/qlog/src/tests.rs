use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_transport::trace::{DropReason, PacketTrace, TimerKind};
use anabranch_transport::{ConnectionError, FourTuple, IdleReason, PathState, Silence, TransportError};
use anabranch_wire::{
    ConnectionClose, Dir, Direction, EcnCounts, Frame, NewConnectionId, PacketKind, PreferredAddress,
    ResetToken, SpaceId, Stream, StreamId, TransportErrorCode, TransportParameters, VarInt, Version, Writer,
    write_ack,
};

use super::*;

const SCHEMA: &str = include_str!("quic-events.cddl");

/// Sink whose bytes can be read while the writer owns it. It rejects bytes beyond `limit`.
#[derive(Clone)]
pub(crate) struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self { bytes: Arc::default(), limit: usize::MAX }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.len() + data.len() > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn info(side: Side, clock: Clock) -> TraceInfo {
    TraceInfo { side, title: "a \"test\"".into(), group_id: cid(&[1, 2, 3, 4]), clock }
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn tuple(port: u16) -> FourTuple {
    FourTuple { local: ([192, 0, 2, 1], port).into(), remote: "[2001:db8::1]:443".parse().unwrap() }
}

fn every_frame() -> Vec<Frame<'static>> {
    let id = StreamId::new(Side::Server, Dir::Bi, 7);
    let path = PathId(3);
    let issued = |path| {
        let token = ResetToken([0xee; 16]);
        Frame::NewConnectionId(NewConnectionId {
            path,
            sequence: 4,
            retire_prior_to: 2,
            cid: cid(&[9; 8]),
            token,
        })
    };
    let close = |application, code, reason| {
        Frame::ConnectionClose(ConnectionClose { application, code, frame_type: 0, reason })
    };
    vec![
        Frame::Ping,
        Frame::ResetStream { id, code: VarInt::from_u32(5), final_size: 6 },
        Frame::StopSending { id, code: VarInt::from_u32(5) },
        Frame::Crypto { offset: 10, data: b"hello" },
        Frame::NewToken { token: b"token" },
        Frame::Stream(Stream { id, offset: 0, fin: false, data: b"data" }),
        Frame::Stream(Stream { id, offset: 4, fin: true, data: b"" }),
        Frame::MaxData(1 << 40),
        Frame::MaxStreamData { id, maximum: 9 },
        Frame::MaxStreams { dir: Dir::Uni, maximum: 3 },
        Frame::DataBlocked(8),
        Frame::StreamDataBlocked { id, maximum: 9 },
        Frame::StreamsBlocked { dir: Dir::Bi, maximum: 3 },
        issued(None),
        issued(Some(path)),
        Frame::RetireConnectionId { path: None, sequence: 1 },
        Frame::RetireConnectionId { path: Some(path), sequence: 1 },
        Frame::PathChallenge([1; 8]),
        Frame::PathResponse([2; 8]),
        close(false, TransportErrorCode::PROTOCOL_VIOLATION.into(), b"because"),
        close(false, TransportErrorCode::crypto(0x78).into(), b"\xff"),
        close(false, TransportErrorCode::PATH_UNSTABLE_OR_POOR.into(), b""),
        close(true, VarInt::from_u32(77), b"bye"),
        Frame::HandshakeDone,
        Frame::Datagram { data: b"dgram" },
        Frame::AckFrequency { sequence: 0, threshold: 10, max_ack_delay_us: 25_000, reordering_threshold: 3 },
        Frame::ImmediateAck,
        Frame::PathAbandon { path, code: VarInt::from_u32(0x3e) },
        Frame::PathStatus { path, available: true, sequence: 1 },
        Frame::PathStatus { path, available: false, sequence: 2 },
        Frame::MaxPathId(5),
        Frame::PathsBlocked(5),
        Frame::PathCidsBlocked { path, next_sequence: 4 },
    ]
}

/// Returns a payload with all frames: ACKs with and without a path, every other frame, and padding.
fn every_frame_payload(direction: Direction) -> Vec<u8> {
    let mut bytes = vec![0; 2_000];
    let mut writer = Writer::new(&mut bytes, direction);
    let ranges = [20..=22, 10..=10];
    let ecn = EcnCounts { ect0: 4, ect1: 0, ce: 1 };
    write_ack(&mut writer, None, ranges.clone().into_iter(), 100, Some(ecn)).unwrap();
    write_ack(&mut writer, Some(PathId(3)), ranges.into_iter(), 100, None).unwrap();
    for frame in every_frame() {
        writer.frame(&frame).unwrap();
    }
    writer.frame(&Frame::Padding(17)).unwrap();
    let len = writer.len();
    bytes.truncate(len);
    bytes
}

fn packet(kind: PacketKind, payload: &[u8], direction: Direction) -> PacketTrace<'_> {
    let mut packet = PacketTrace::new(kind, Version::V1, payload, direction);
    packet.number = 12;
    packet.dcid = cid(&[0xab; 8]);
    packet.scid = cid(&[0xcd; 4]);
    packet.key_phase = true;
    packet.size = payload.len() + 30;
    packet
}

/// Calls `see` with every kind of event at least once.
fn every_event(mut see: impl FnMut(&TraceEvent<'_>)) {
    let path = PathId(2);
    let payload = every_frame_payload(Direction::Forward);
    let backward = every_frame_payload(Direction::Backward);
    let mut parameters = TransportParameters::default();
    parameters.original_destination_connection_id = Some(cid(&[1, 2, 3, 4]));
    parameters.ack_delay_exponent = 10;
    parameters.initial_max_path_id = Some(4);
    parameters.min_ack_delay = Some(1_000);
    parameters.preferred_address = Some(PreferredAddress {
        v4: Some("192.0.2.7:1".parse().unwrap()),
        v6: Some("[2001:db8::7]:2".parse().unwrap()),
        cid: cid(&[3; 4]),
        token: ResetToken([0xee; 16]),
    });
    see(&TraceEvent::Started { tuple: tuple(1), local_cid: cid(&[5]), remote_cid: ConnectionId::EMPTY });
    see(&TraceEvent::VersionChosen { version: Version::V2 });
    see(&TraceEvent::KeysInstalled { space: SpaceId::Initial, early: false });
    see(&TraceEvent::KeysInstalled { space: SpaceId::Data, early: true });
    see(&TraceEvent::Parameters { local: true, parameters: &TransportParameters::default() });
    see(&TraceEvent::Parameters { local: false, parameters: &parameters });
    see(&TraceEvent::AlpnChosen { protocol: b"h3" });
    see(&TraceEvent::AlpnChosen { protocol: b"\xff" });
    for kind in [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::OneRtt] {
        see(&TraceEvent::PacketSent(packet(kind, &payload, Direction::Forward)));
        see(&TraceEvent::PacketReceived(packet(kind, &backward, Direction::Backward)));
    }
    see(&TraceEvent::PacketReceived(packet(PacketKind::Retry, b"not frames", Direction::Forward)));
    see(&TraceEvent::PacketDropped { kind: None, size: 9, reason: DropReason::Malformed });
    see(&TraceEvent::PacketDropped {
        kind: Some(PacketKind::OneRtt),
        size: 9,
        reason: DropReason::Undecryptable,
    });
    see(&TraceEvent::PathAssigned { path, tuple: tuple(7), validated: true });
    let idle = Some(IdleReason::PotentiallyFailed);
    see(&TraceEvent::PathState { path, state: PathState::Failing, idle });
    see(&TraceEvent::PathAbandoned { path, code: VarInt::from_u32(0x3e76) });
    see(&TraceEvent::PacketAcked { space: SpaceId::Data, path, number: 3 });
    see(&TraceEvent::PacketLost { space: SpaceId::Data, path, number: 5 });
    see(&TraceEvent::PacketLost { space: SpaceId::Handshake, path, number: 4 });
    see(&TraceEvent::SpuriousLoss { path, packets: 1 });
    see(&TraceEvent::Metrics {
        path,
        min_rtt: Duration::from_micros(1_500),
        smoothed_rtt: Duration::from_millis(2),
        latest_rtt: Duration::from_nanos(2_000_001),
        rtt_variance: Duration::ZERO,
        window: 12_000,
        ssthresh: Some(6_000),
        in_flight: 1_200,
        pto_count: 1,
    });
    see(&TraceEvent::CongestionState { path, state: "slow_start" });
    see(&TraceEvent::TimerExpired { path, kind: TimerKind::Pto, space: SpaceId::Data });
    see(&TraceEvent::EcnState { path, capable: false });
    see(&TraceEvent::MtuChanged { path, mtu: 1_400 });
    see(&TraceEvent::KeysDiscarded { space: SpaceId::Handshake });
    see(&TraceEvent::KeyUpdated { generation: 2, remote: true });
    see(&TraceEvent::HandshakeConfirmed);
    let error = TransportError::new(TransportErrorCode::crypto(42), "bad certificate");
    for error in [
        ConnectionError::Transport(error.clone()),
        ConnectionError::PeerTransport(TransportError::new(TransportErrorCode::PATH_UNSTABLE_OR_POOR, "")),
        ConnectionError::PeerApplication {
            code: VarInt::from_u32(9),
            reason: b"\"bye\x1e\xff".as_slice().into(),
        },
        ConnectionError::Reset,
        ConnectionError::TimedOut(Silence::default()),
        ConnectionError::Unreachable((&io::Error::from(io::ErrorKind::ConnectionRefused)).into()),
        ConnectionError::HandshakeTimedOut,
        ConnectionError::LocallyClosed,
        ConnectionError::VersionMismatch,
    ] {
        see(&TraceEvent::Closed { error: &error });
    }
}

/// Returns the whole trace as text, and its records as JSON.
fn trace(side: Side, clock: Clock) -> (String, Vec<serde_json::Value>) {
    let sink = Sink::new();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(side, clock));
    let mut nanos = 1_000_000;
    every_event(|event| {
        nanos += 1_234_567;
        qlog.event(Time::from_nanos(nanos), event);
    });
    drop(qlog);
    let text = sink.text();
    let records = text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
    (text, records)
}

#[test]
fn records_are_a_json_text_sequence() {
    let (text, records) = trace(Side::Client, Clock::Unix);
    assert!(text.starts_with('\u{1e}'));
    assert_eq!(text.matches('\u{1e}').count(), records.len());
    // RFC 7464 §2.2: a record separator precedes each text, and a line feed follows it. The texts of this
    // trace contain neither of these characters.
    assert!(
        text.split('\u{1e}')
            .skip(1)
            .all(|record| record.ends_with("}\n") && record.matches('\n').count() == 1)
    );
    let header = &records[0];
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    assert_eq!(header["trace"]["common_fields"]["group_id"], "01020304");
    assert_eq!(header["trace"]["common_fields"]["reference_time"]["epoch"], "1970-01-01T00:00:00.000Z");
    assert_eq!(header["title"], "a \"test\"");
    assert_eq!(
        trace(Side::Server, Clock::Virtual).1[0]["trace"]["common_fields"]["reference_time"]["epoch"],
        "unknown"
    );
}

/// Checks a record against the rule `event`, and its data against the rule with the event's name.
fn check(record: &serde_json::Value) -> Result<(), String> {
    let name = record["name"].as_str().unwrap().strip_prefix("quic:").unwrap();
    for (rule, value) in [("event", record), (name, &record["data"])] {
        let schema = format!("root = {rule}\n{SCHEMA}");
        cddl::validate_json_from_str(&schema, &value.to_string(), None)
            .map_err(|e| format!("{record}\n{e}"))?;
    }
    Ok(())
}

#[test]
fn events_fit_the_drafts_schema() {
    for record in &trace(Side::Client, Clock::Virtual).1[1..] {
        check(record).unwrap();
    }
}

/// Checks that the schema rejects invalid records, so that the test above can fail.
#[test]
fn the_schema_refuses_what_it_should() {
    let records = trace(Side::Client, Clock::Virtual).1;
    let of = |name: &str| records.iter().find(|record| record["name"] == name).unwrap().clone();
    let mut record = of("quic:mtu_updated");
    record["data"]["news"] = 1.into();
    assert!(check(&record).is_err(), "an unknown field");
    let mut record = of("quic:mtu_updated");
    record["name"] = "quic:mtu_changed".into();
    assert!(check(&record).is_err(), "an unknown event");
    let mut record = of("quic:packet_sent");
    record["data"]["header"]["dcid"] = "abc".into();
    assert!(check(&record).is_err(), "half a byte");
    let mut record = of("quic:packet_sent");
    record["data"]["frames"][0]["frame_type"] = "acks".into();
    assert!(check(&record).is_err(), "an unknown frame");
}

fn read_by_qlog_crate(text: &str) -> qlog::reader::QlogSeqReader<'static> {
    qlog::reader::QlogSeqReader::new(Box::new(io::Cursor::new(text.to_owned().into_bytes()))).unwrap()
}

/// Checks that another implementation's reader accepts every record, except for names that it does not know:
/// frames of extensions, alerts, and `key_discarded`, for which it has an older name.
#[test]
fn the_qlog_crate_reads_the_trace() {
    let (text, records) = trace(Side::Server, Clock::Virtual);
    let reader = read_by_qlog_crate(&text);
    assert_eq!(reader.qlog.file_schema, "urn:ietf:params:qlog:file:sequential");
    assert_eq!(reader.qlog.trace.vantage_point.as_ref().unwrap().ty, qlog::VantagePointType::Server);
    let unknown = ["path_ack", "crypto_error_0x", "key_discarded", "path_state_updated", "path_abandoned"];
    let mut read = 0;
    for (event, record) in reader.zip(&records[1..]) {
        read += 1;
        match event {
            qlog::reader::Event::Qlog(event) => assert_eq!(event.time, record["time"].as_f64().unwrap()),
            qlog::reader::Event::Json(_) => {
                let record = record.to_string();
                assert!(unknown.iter().any(|name| record.contains(name)), "not understood: {record}");
            }
        }
    }
    assert_eq!(read, records.len() - 1);
}

#[test]
fn the_qlog_crate_reads_all_frames_of_the_draft() {
    let mut payload = vec![0; 2_000];
    let mut writer = Writer::new(&mut payload, Direction::Forward);
    let of_the_draft = |frame: &&Frame<'_>| match frame {
        Frame::ConnectionClose(close) => TransportErrorCode::from(close.code).alert().is_none(),
        frame => frame.kind() < 0x40 && frame.kind() != Frame::ImmediateAck.kind(),
    };
    let frames = every_frame();
    let frames: Vec<_> = frames.iter().filter(of_the_draft).collect();
    assert!(frames.len() >= 20);
    write_ack(&mut writer, None, [20..=22, 10..=10].into_iter(), 100, None).unwrap();
    frames.iter().for_each(|frame| writer.frame(frame).unwrap());
    let len = writer.len();
    let sink = Sink::new();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Client, Clock::Virtual));
    let packet = packet(PacketKind::OneRtt, &payload[..len], Direction::Forward);
    qlog.event(Time::ZERO, &TraceEvent::PacketSent(packet));
    drop(qlog);
    let Some(qlog::reader::Event::Qlog(event)) = read_by_qlog_crate(&sink.text()).next() else {
        panic!("not understood: {}", sink.text());
    };
    let qlog::events::EventData::QuicPacketSent(sent) = event.data else { panic!("another event") };
    assert_eq!(sent.frames.unwrap().len(), frames.len() + 1);
    assert_eq!(sent.header.packet_number, Some(12));
}

#[test]
fn equal_traces_give_equal_bytes() {
    assert_eq!(trace(Side::Client, Clock::Virtual).0, trace(Side::Client, Clock::Virtual).0);
}

#[test]
fn every_frame_is_named_in_both_directions() {
    let records = trace(Side::Client, Clock::Virtual).1;
    let frames = |name: &str| {
        let of = |record: &&serde_json::Value| {
            record["name"] == name && record["data"]["header"]["packet_type"] == "1RTT"
        };
        records.iter().find(of).unwrap()["data"]["frames"].as_array().unwrap().clone()
    };
    let mut sent: Vec<_> = frames("quic:packet_sent").iter().map(|f| f["frame_type"].to_string()).collect();
    let mut received: Vec<_> =
        frames("quic:packet_received").iter().map(|f| f["frame_type"].to_string()).collect();
    assert_eq!(sent.len(), every_frame().len() + 3, "all of them, two ACKs and padding");
    sent.sort();
    received.sort();
    assert_eq!(sent, received);
}

/// Checks that ACK delays are scaled by the sender's exponent (RFC 9000 §19.3): 3 here, 10 at the peer.
#[test]
fn ack_delays_are_scaled_by_their_sender() {
    let records = trace(Side::Client, Clock::Virtual).1;
    let delay = |name: &str| {
        let record =
            records.iter().find(|r| r["name"] == name && r["data"]["frames"][0].is_object()).unwrap();
        let frames = record["data"]["frames"].as_array().unwrap();
        frames.iter().find(|f| f["frame_type"] == "ack").unwrap()["ack_delay"].as_f64().unwrap()
    };
    assert_eq!(delay("quic:packet_sent"), 0.8);
    assert_eq!(delay("quic:packet_received"), 102.4);
}

#[test]
fn events_of_a_path_name_it_and_its_tuple() {
    let records = trace(Side::Client, Clock::Virtual).1;
    let of = |name: &str| records.iter().find(|record| record["name"] == name).unwrap();
    assert_eq!(of("quic:tuple_assigned")["data"]["tuple_id"], "1");
    assert_eq!(of("quic:packet_lost")["path_id"], 2);
    assert_eq!(of("quic:packet_lost")["tuple"], "1");
    // The connection's first tuple has the empty TupleID, which is the default.
    assert_eq!(of("quic:packet_sent")["path_id"], 0);
    for name in ["recovery_metrics_updated", "congestion_state_updated", "timer_updated", "mtu_updated"] {
        assert_eq!(of(&format!("quic:{name}"))["path_id"], 2, "{name}");
    }
    assert_eq!(of("quic:path_state_updated")["path_id"], 2);
    assert_eq!(of("quic:path_state_updated")["data"]["new"], "failing");
    assert_eq!(of("quic:path_state_updated")["data"]["idle"], "potentially_failed");
    assert_eq!(of("quic:path_abandoned")["data"]["error_code"], 0x3e76);
    let header = |space: &str| {
        let lost = |record: &&serde_json::Value| {
            record["name"] == "quic:packet_lost" && record["data"]["header"]["packet_type"] == space
        };
        records.iter().find(lost).unwrap()["data"]["header"].clone()
    };
    assert_eq!(header("1RTT")["path_id"], 2);
    assert!(header("handshake")["path_id"].is_null(), "Handshake packets belong to no path");
    assert!(of("quic:packet_sent")["tuple"].is_null());
    assert!(of("quic:parameters_set")["path_id"].is_null());
}

#[test]
fn secrets_stay_out() {
    let text = trace(Side::Client, Clock::Virtual).0;
    assert!(!text.contains(&"ee".repeat(16)), "a stateless reset token");
}

/// Checks the largest inputs that a peer can cause: a payload of a thousand one-byte frames, and endless
/// migrations.
#[test]
fn a_hostile_peer_makes_no_giant_records() {
    let sink = Sink::new();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Server, Clock::Virtual));
    let pings = [1; 1_200];
    qlog.event(
        Time::ZERO,
        &TraceEvent::PacketReceived(packet(PacketKind::OneRtt, &pings, Direction::Forward)),
    );
    qlog.flush();
    assert_eq!(sink.text().matches("\"ping\"").count(), frame::MAX_FRAMES);
    for path in 0..3_000 {
        let assigned = TraceEvent::PathAssigned { path: PathId(path), tuple: tuple(1), validated: false };
        qlog.event(Time::ZERO, &assigned);
    }
    assert!(qlog.tuples.len() <= MAX_PATHS);
    assert_eq!(qlog.tuple_id(Some(PathId(2_999))), "3000");
}

#[test]
fn a_sink_that_fails_ends_the_trace_only() {
    let sink = Sink { limit: 2_000, ..Sink::new() };
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Client, Clock::Virtual));
    assert!(!qlog.failed());
    every_event(|event| qlog.event(Time::ZERO, event));
    assert!(qlog.failed());
    qlog.event(Time::ZERO, &TraceEvent::HandshakeConfirmed);
    assert!(qlog.buffer.is_empty(), "nothing is gathered for a sink that is gone");
}

#[test]
fn a_trace_ends_at_its_limit_and_says_so() {
    use crate::MAX_TRACE;
    let path = PathId::ZERO;
    for (limit, most) in [(Some(10_000), 10_000), (None, MAX_TRACE)] {
        let sink = Sink::new();
        let qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Server, Clock::Virtual));
        let mut qlog = match limit {
            Some(limit) => qlog.with_limit(limit),
            None => qlog,
        };
        let mut told = 0;
        while qlog.written + 1_000 < most && told < 1_000 {
            qlog.event(Time::from_millis(told), &TraceEvent::MtuChanged { path, mtu: 1_200 });
            told += 1;
        }
        if limit.is_none() {
            // The default limit must be larger than the trace of this test.
            assert!(MAX_TRACE > 100_000 * 300 && qlog.written < MAX_TRACE && !qlog.is_cut);
            continue;
        }
        for ms in told..100_000 {
            qlog.event(Time::from_millis(ms), &TraceEvent::MtuChanged { path, mtu: 1_400 });
        }
        qlog.event(
            Time::from_millis(200_000),
            &TraceEvent::Closed { error: &ConnectionError::HandshakeTimedOut },
        );
        drop(qlog);
        let text = sink.text();
        assert!(text.len() as u64 <= most + 500, "{}", text.len());
        let records: Vec<serde_json::Value> =
            text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
        let [.., last, cut, end] = &records[..] else { panic!("too few") };
        assert_eq!(last["name"], "quic:mtu_updated");
        assert_eq!(cut["name"], "loglevel:warning");
        assert!(cut["data"]["message"].as_str().unwrap().contains("limit of 10000 bytes"));
        assert_eq!(
            (&end["name"], &end["data"]["reason"]),
            (&"quic:connection_closed".into(), &"handshake_timeout".into())
        );
    }
}
