//! Resumed connections and early data.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_seeded::deterministic_provider;
use anabranch_testkit::seeded::Trust;
use anabranch_testkit::share_of;
use anabranch_tls::rustls;
use anabranch_wire::{
    Dir, Frame, PacketKind, Side, SpaceId, StreamId, TransportErrorCode as Code, TransportParameters, VarInt,
    Version, Writer, write_ack,
};
use bytes::Bytes;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::injector::encode;
use super::log::{Entry, kinds};
use super::pair::{ALPN, Flying, Pair, configs, direction, over, pattern};
use super::sent::{SentPacket, watch_sent};
use crate::connection::Forged;
use crate::stream::{ReadError, ReceivedBytes};
use crate::trace::DropReason;
use crate::{
    ConnectionError, EndpointConfig, Event, PreferredAddresses, RetryPolicy, Router, ServerConfig,
    TransportConfig,
};

/// Returns a pair whose client has connected to the server before and now starts a second connection.
fn resuming(change: impl FnOnce(&mut ServerConfig)) -> Pair {
    let mut pair = Pair::with(|_, server| change(server));
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
    pair
}

/// Writes `data` to a new stream and finishes the stream.
fn send(pair: &mut Pair, data: &[u8]) -> StreamId {
    let streams = pair.client().streams();
    let id = streams.open(Dir::Uni).expect("remembered credit");
    assert_eq!(streams.write(id, data), Ok(data.len()));
    streams.finish(id).unwrap();
    id
}

/// Runs until the server has read the whole stream.
fn receive(pair: &mut Pair, id: StreamId) -> Vec<u8> {
    let mut received = Vec::new();
    pair.run_until(Duration::from_secs(10), |pair| {
        pair.server_handle.is_some() && pair.read(Side::Server, id, &mut received)
    });
    received
}

fn early_data_accepted(pair: &Pair) -> Option<bool> {
    pair.client_events.iter().find_map(|event| match event {
        Event::Connected { early_data_accepted } => Some(*early_data_accepted),
        _ => None,
    })
}

#[test]
fn early_data_arrives_with_the_first_flight() {
    let mut pair = resuming(|_| {});
    let begin = pair.now;
    assert!(pair.client().has_early_keys());
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    assert_eq!(pair.now - begin, Duration::from_millis(10), "half a round trip");
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(true));
    assert!(pair.client().is_resumed() && pair.server().is_resumed());
}

/// 0-RTT packets can be replayed, so none is decrypted into the buffer of a stream.
#[test]
fn early_data_is_copied() {
    over(Version::REVERSO, || {
        let mut pair = resuming(|_| {});
        let data = pattern(9_000);
        let id = send(&mut pair, &data);
        assert!(receive(&mut pair, id) == data);
        pair.connect();
        assert_eq!(early_data_accepted(&pair), Some(true));
        let received = pair.server().stats().received;
        assert_eq!(received, ReceivedBytes { copied: 9_000, ..ReceivedBytes::default() });
    });
}

#[test]
fn early_data_survives_a_retry() {
    let mut pair = resuming(|server| server.retry = RetryPolicy::Always);
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(true));
}

#[test]
fn early_data_survives_loss_and_reordering() {
    for lost in 0..8 {
        let mut pair = resuming(|_| {});
        let mut seen = 0;
        pair.network = Some(Box::new(move |sender, mut flying| {
            seen += usize::from(sender.is_client());
            if sender.is_client() && seen == lost + 1 {
                // The first datagrams are late: early data arrives before the ClientHello.
                flying.at += Duration::from_millis(3);
                return if lost % 2 == 0 { Vec::new() } else { vec![flying] };
            }
            vec![flying]
        }));
        let data = pattern(8_000);
        let id = send(&mut pair, &data);
        assert!(receive(&mut pair, id) == data);
    }
}

#[test]
fn a_server_that_forgot_refuses_early_data_and_gets_it_again() {
    let mut pair = resuming(|_| {});
    pair.restart_server(|server| server.tls = configs().1.tls);
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(false));
    assert!(!pair.client().is_resumed());
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn a_change_of_version_refuses_early_data() {
    // RFC 9369 §4.1
    let mut pair = resuming(|_| {});
    pair.restart_server(|server| {
        Arc::make_mut(&mut server.transport).versions = vec![Version::V2, Version::V1];
    });
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    assert_eq!(pair.client().version(), Version::V2);
    assert_eq!(early_data_accepted(&pair), Some(false));
}

#[test]
fn there_is_no_early_data_before_a_change_that_renumbers_streams() {
    let mut pair = Pair::with(|client, _| {
        Arc::make_mut(&mut client.transport).versions = vec![Version::V1, Version::REVERSO];
    });
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
    assert_eq!(pair.client().streams().open(Dir::Bi), None, "nothing may be sent yet");
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(false));
    assert!(pair.client().is_resumed());
    assert_eq!(pair.client().version(), Version::V1);
    pair.restart_server(|server| {
        Arc::make_mut(&mut server.transport).versions = vec![Version::REVERSO, Version::V1];
    });
    pair.reconnect();
    pair.connect();
    assert_eq!(pair.client().version(), Version::REVERSO);
    assert_eq!(pair.client().streams().open(Dir::Bi).map(|id| id.index()), Some(1));
    let data = pattern(5_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

/// A client remembers a small window, although the server's is larger by now.
#[test]
fn early_data_keeps_to_the_remembered_limits() {
    let window = |server: &mut ServerConfig, bytes| {
        Arc::make_mut(&mut server.transport).streams.connection_window = bytes;
    };
    let mut pair = resuming(|server| window(server, 5_000));
    pair.restart_server(|server| window(server, 50_000));
    let now = pair.now;
    let sent = watch_sent(pair.client(), now);
    let data = pattern(20_000);
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    let mut rest = Bytes::copy_from_slice(&data);
    let mut received = Vec::new();
    let mut connected_at = None;
    pair.run_until(Duration::from_secs(10), |pair| {
        if connected_at.is_none() && early_data_accepted(pair).is_some() {
            connected_at = Some(sent.packets().len());
        }
        let _ = pair.client().streams().write_bytes(id, &mut rest);
        pair.server_handle.is_some() && {
            pair.read(Side::Server, id, &mut received);
            received.len() == data.len()
        }
    });
    assert!(received == data);
    assert_eq!(early_data_accepted(&pair), Some(true));
    let packets = sent.packets();
    let is_early = |packet: &&SentPacket| packet.kind == PacketKind::ZeroRtt;
    let ends: Vec<_> = packets.iter().filter(is_early).map(|packet| packet.stream_end).collect();
    assert_eq!(ends.iter().max(), Some(&5_000));
    let late = packets.iter().skip(connected_at.unwrap());
    assert_eq!(late.filter(is_early).count(), 0, "once there are 1-RTT keys");
}

/// RFC 9000 §7.4.1: what a client must not remember.
#[test]
fn parameters_of_one_connection_are_not_remembered() {
    let delay = |server: &mut ServerConfig, millis| {
        Arc::make_mut(&mut server.transport).ack.max_delay = Duration::from_millis(millis);
    };
    let preferred = "127.0.0.9:4434".parse().unwrap();
    let mut pair = Pair::with(|_, server| {
        delay(server, 400);
        // The client cannot ask for earlier acknowledgments.
        edit(Arc::make_mut(&mut server.transport), |parameters| parameters.min_ack_delay = None);
        server.preferred_address = Some(PreferredAddresses { v4: Some(preferred), v6: None });
    });
    pair.connect();
    pair.run_until_quiet();
    let old_cid = pair.client().remote_cid();
    let pto = |pair: &mut Pair| pair.client().paths().next().unwrap().pto;
    let slow = pto(&mut pair);
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_for(Duration::from_secs(5));
    pair.restart_server(|server| {
        delay(server, 25);
        server.preferred_address = None;
    });
    pair.reconnect();
    let id = send(&mut pair, &pattern(100));
    assert!(pair.client().has_early_keys());
    assert_eq!(pair.client().other_addresses(), []);
    // A stateless reset with a token of the earlier connection is nothing to this one.
    let router = Router::new(&EndpointConfig::new([2; 32]), None);
    let token = router.shared().reset_token(&old_cid).0;
    pair.send_raw(Side::Server, [&[0x40; 40][..], &token].concat());
    assert!(receive(&mut pair, id) == pattern(100));
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(early_data_accepted(&pair), Some(true));
    assert_eq!(pair.closed(Side::Client), None);
    assert!(slow - pto(&mut pair) >= Duration::from_millis(300), "{slow:?}, {:?}", pto(&mut pair));
}

/// Server configuration changes that reduce one remembered limit each (RFC 9000 §7.4.1, RFC 9221 §3).
const SHRINK: [fn(&mut TransportConfig); 8] = [
    |transport| transport.streams.max_uni = 1,
    |transport| transport.streams.max_bidi = 1,
    |transport| transport.streams.stream_window -= 1,
    |transport| transport.streams.connection_window -= 1,
    |transport| transport.datagram_receive_buffer = 0,
    |transport| transport.active_connection_id_limit = 2,
    |transport| edit(transport, |parameters| parameters.initial_max_stream_data_bidi_local -= 1),
    |transport| edit(transport, |parameters| parameters.max_datagram_frame_size -= 1),
];

fn edit(transport: &mut TransportConfig, change: fn(&mut TransportParameters)) {
    transport.hooks.parameters = Some(change);
}

#[test]
fn a_server_with_lower_limits_refuses_early_data() {
    for (number, change) in SHRINK.into_iter().enumerate() {
        let mut pair = resuming(|_| {});
        pair.restart_server(|server| change(Arc::make_mut(&mut server.transport)));
        let data = pattern(5_000);
        let id = send(&mut pair, &data);
        assert!(receive(&mut pair, id) == data);
        pair.connect();
        assert_eq!(early_data_accepted(&pair), Some(false), "change {number}");
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
        // The session that this connection has stored has the lower limits.
        pair.run_until_quiet();
        pair.reconnect();
        pair.connect();
        assert_eq!(early_data_accepted(&pair), Some(true), "change {number}");
    }
}

#[test]
fn a_server_with_higher_limits_accepts_early_data() {
    let mut pair = resuming(|server| {
        let transport = Arc::make_mut(&mut server.transport);
        transport.active_connection_id_limit = 2;
        transport.datagram_receive_buffer = 0;
    });
    pair.restart_server(|server| {
        let transport = Arc::make_mut(&mut server.transport);
        let defaults = TransportConfig::default();
        transport.active_connection_id_limit = defaults.active_connection_id_limit;
        transport.datagram_receive_buffer = defaults.datagram_receive_buffer;
        transport.streams.connection_window *= 2;
        transport.streams.max_uni += 1;
    });
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(true));
}

/// Session cache of a server that keeps no limits with its sessions: it writes zeros over them, which are the
/// first 64 bytes.
#[derive(Debug)]
struct WithoutLimits(Arc<dyn StoresServerSessions>);

impl StoresServerSessions for WithoutLimits {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        value[..64].fill(0);
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}

/// Returns the TLS configuration of a server that accepts early data under any limits.
fn careless() -> anabranch_tls::ServerConfig {
    let trust = Trust::new("localhost");
    let chain = vec![trust.identity.certificate.clone()];
    let mut config = rustls::ServerConfig::builder_with_details(deterministic_provider(), trust.clock)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, trust.identity.key)
        .unwrap();
    config.alpn_protocols = vec![ALPN.into()];
    config.max_early_data_size = u32::MAX;
    config.session_storage = Arc::new(WithoutLimits(ServerSessionMemoryCache::new(16)));
    Arc::new(config).try_into().unwrap()
}

#[test]
fn limits_that_shrink_after_early_data_was_accepted_are_a_violation() {
    // RFC 9000 §7.4.1, RFC 9221 §3
    for (number, change) in SHRINK.into_iter().enumerate() {
        let mut pair = resuming(|server| server.tls = careless());
        pair.restart_server(|server| change(Arc::make_mut(&mut server.transport)));
        send(&mut pair, &pattern(100));
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(Side::Server), Some(Code::PROTOCOL_VIOLATION), "change {number}");
    }
}

#[test]
fn frames_that_0_rtt_packets_must_not_carry() {
    let mut ack = [0; 16];
    let mut writer = Writer::new(&mut ack, direction());
    write_ack(&mut writer, None, [0..=0].into_iter(), 0, None).unwrap();
    let ack = writer.written().to_vec();
    let payloads = [
        ack,
        encode(&[Frame::Crypto { offset: 0, data: b"abc" }]),
        encode(&[Frame::NewToken { token: b"token" }]),
        encode(&[Frame::HandshakeDone, Frame::Padding(4)]),
        encode(&[Frame::PathResponse([1; 8])]),
        encode(&[Frame::RetireConnectionId { path: None, sequence: 0 }, Frame::Padding(4)]),
        Vec::new(),
    ];
    for payload in payloads {
        let mut pair = resuming(|_| {});
        pair.drain();
        pair.inject(Side::Client, &Forged::new(PacketKind::ZeroRtt, &payload));
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(Side::Client), Some(Code::PROTOCOL_VIOLATION), "{payload:?}");
    }
}

#[test]
fn row_18_replayed_first_flights_get_no_early_data() {
    let mut pair = resuming(|_| {});
    let data = pattern(500);
    let id = send(&mut pair, &data);
    pair.drain();
    let flight: Vec<Flying> = pair.to_server.iter().cloned().collect();
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    let first = pair.server_handle;
    // An attacker replays the flight from other addresses. With changed connection IDs, the running server
    // would not take the copy for a duplicate, but its handshake would fail. The test therefore replays the
    // unchanged flight to a restarted server.
    let config = pair.server_config().clone();
    for port in 1..=u16::try_from(share_of(1_000)).unwrap() {
        let mut server =
            crate::Endpoint::new(&EndpointConfig::new([port as u8; 32]), Some(Arc::new(config.clone())));
        server.set_auto_accept(true);
        for mut flying in flight.clone() {
            flying.tuple.remote.set_port(port);
            let mut batch = [crate::Datagram { tuple: flying.tuple, ecn: None, payload: &mut flying.bytes }];
            server.handle_batch(pair.now, &mut batch);
        }
        let handle = crate::Handle(0);
        let connection = server.connection(handle).expect("a new handshake");
        assert!(!connection.paths().next().unwrap().validated, "a replay proves no address");
        assert_eq!(connection.streams().accept(Dir::Uni), None, "the replayed data goes nowhere");
        assert_eq!(connection.streams().peek(id).unwrap_err(), ReadError::Closed);
    }
    assert_eq!(pair.server_handle, first);
}

/// Lets a client send early data, which the restarted server rejects. The server speaks `protocol` from then on.
fn rejected_by(protocol: &str, data: Option<&[u8]>) -> (Pair, Option<StreamId>) {
    let trust = Trust::new("localhost");
    let mut pair = Pair::with(|client, _| {
        client.tls = trust.client(ALPN).alpn([ALPN, "other"]).early_data(true).build().unwrap();
    });
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    pair.reconnect();
    pair.restart_server(|server| server.tls = trust.server(protocol).early_data(true).build().unwrap());
    assert!(pair.client().has_early_keys());
    let id = data.map(|data| send(&mut pair, data));
    (pair, id)
}

#[test]
fn rejected_early_data_is_not_sent_in_another_application_protocol() {
    let data = pattern(3_000);
    let (mut pair, id) = rejected_by("other", Some(&data));
    pair.run_until_quiet();
    let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else { panic!("it goes on") };
    assert_eq!(error.code, Code(0x178));
    assert_eq!(pair.code_seen_by(Side::Server), Some(Code(0x178)));
    assert_eq!(pair.server().streams().bytes_received(), 0, "{id:?}");
    // In the same protocol the data is sent again; without data the connection goes on in the other one.
    let (mut pair, id) = rejected_by(ALPN, Some(&data));
    assert!(receive(&mut pair, id.unwrap()) == data);
    assert_eq!(early_data_accepted(&pair), Some(false));
    let (mut pair, _) = rejected_by("other", None);
    pair.connect();
    assert_eq!(pair.client().alpn(), Some(&b"other"[..]));
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn a_server_forgets_the_keys_of_early_data() {
    let mut pair = resuming(|_| {});
    let id = send(&mut pair, &pattern(500));
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let log = pair.log(Side::Server);
    receive(&mut pair, id);
    pair.connect();
    let discards = |entry: &Entry| matches!(entry, Entry::KeysDiscarded(SpaceId::Data));
    assert_eq!(log.position(0, discards), None, "late packets may arrive");
    pair.run_for(Duration::from_secs(1));
    assert!(log.position(0, discards).is_some());
}

/// Returns the kinds of all packets of `from` in an attempt to send 50,000 bytes early.
fn kinds_of_early_data(from: Side, accepted: bool) -> Vec<PacketKind> {
    let mut pair = resuming(|_| {});
    if !accepted {
        pair.restart_server(|server| server.tls = configs().1.tls);
    }
    let seen = Rc::<RefCell<Vec<PacketKind>>>::default();
    let into = Rc::clone(&seen);
    pair.network = Some(Box::new(move |sender, flying| {
        if sender == from {
            into.borrow_mut().extend(kinds(&flying.bytes));
        }
        vec![flying]
    }));
    let data = pattern(50_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(accepted));
    drop(pair);
    seen.take()
}

#[test]
fn no_0_rtt_packet_follows_1_rtt_keys() {
    for accepted in [true, false] {
        let kinds = kinds_of_early_data(Side::Client, accepted);
        let first = kinds.iter().position(|kind| *kind == PacketKind::OneRtt).unwrap();
        assert!(kinds[..first].contains(&PacketKind::ZeroRtt));
        assert!(!kinds[first..].contains(&PacketKind::ZeroRtt), "{accepted}");
    }
}

#[test]
fn a_server_sends_no_0_rtt_packets() {
    let kinds = kinds_of_early_data(Side::Server, true);
    assert!(kinds.contains(&PacketKind::OneRtt) && !kinds.contains(&PacketKind::ZeroRtt));
}

#[test]
fn a_client_discards_0_rtt_packets() {
    let mut pair = resuming(|_| {});
    send(&mut pair, &pattern(500));
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    pair.to_client.clear();
    assert!(pair.client().has_early_keys());
    let log = pair.log(Side::Client);
    let payload = encode(&[Frame::Crypto { offset: 0, data: b"abc" }, Frame::Padding(8)]);
    pair.inject(Side::Server, &Forged::new(PacketKind::ZeroRtt, &payload));
    pair.run_for(pair.delay);
    assert_eq!(log.dropped(), [(Some(PacketKind::ZeroRtt), DropReason::KeyUnavailable)]);
    assert_eq!(log.received().len(), 0);
    pair.connect();
    assert_eq!(early_data_accepted(&pair), Some(true));
}

#[test]
fn packet_numbers_go_on_after_a_retry() {
    let mut pair = resuming(|server| server.retry = RetryPolicy::Always);
    let log = pair.log(Side::Client);
    let data = pattern(5_000);
    let id = send(&mut pair, &data);
    assert!(receive(&mut pair, id) == data);
    pair.connect();
    let is_retry =
        |entry: &Entry| matches!(entry, Entry::Received(packet) if packet.kind == PacketKind::Retry);
    let retry = log.position(0, is_retry).unwrap();
    let sent = |entries: &[Entry], space: SpaceId| -> Vec<u64> {
        let of_space = |entry: &Entry| match entry {
            Entry::Sent(packet) if packet.kind.space() == Some(space) => Some(packet.number),
            _ => None,
        };
        entries.iter().filter_map(of_space).collect()
    };
    for space in [SpaceId::Initial, SpaceId::Data] {
        let (before, after) = (sent(&log.entries()[..retry], space), sent(&log.entries()[retry..], space));
        assert!(!before.is_empty() && !after.is_empty());
        assert!([before.clone(), after.clone()].concat().is_sorted_by(|a, b| a < b), "{before:?} {after:?}");
    }
}
