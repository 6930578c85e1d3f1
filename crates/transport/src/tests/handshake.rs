//! Handshakes under various conditions: Retry, tokens, lost and repeated flights, long certificates,
//! versions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_seeded::Identity;
use anabranch_testkit::seeded::Trust;
use anabranch_wire::{Dir, Frame, Frames, PacketKind, Side, Time, TransportErrorCode as Code, Version};
use bytes::Bytes;

use super::injector::encode;
use super::log::{Entry, Packet};
use super::pair::{ALPN, Flying, Network, Pair, client_addr, pattern, server_addr};
use super::sent::watch_sent;
use crate::connection::Forged;
use crate::trace::{DropReason, Observer, TraceEvent};
use crate::{ClientConfig, ConnectionError, Event, FourTuple, RetryPolicy, ServerConfig};

const RTT: Duration = Duration::from_millis(20);

/// Returns the time from the client's first Initial until its handshake is complete.
fn time_to_connect(pair: &mut Pair) -> Duration {
    let begin = pair.now;
    pair.run_until(Duration::from_secs(60), |pair| {
        pair.client_events.iter().any(|event| matches!(event, Event::Connected { .. }))
    });
    pair.now - begin
}

#[test]
fn a_retry_costs_a_round_trip_and_validates_the_address() {
    let mut pair = Pair::with(|_, server| server.retry = RetryPolicy::Always);
    assert_eq!(time_to_connect(&mut pair), RTT * 2);
    assert!(pair.server().paths().next().unwrap().validated);
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn a_token_of_an_earlier_connection_spares_the_retry() {
    let mut pair = Pair::with(|_, server| server.retry = RetryPolicy::Always);
    pair.connect();
    pair.run_until_quiet();
    let token = pair.client_events.iter().find_map(|event| match event {
        Event::NewToken(token) => Some(token.clone()),
        _ => None,
    });
    pair.client_config.token = token.expect("a NEW_TOKEN frame");
    pair.reconnect();
    assert_eq!(time_to_connect(&mut pair), RTT);
    // Each token is accepted for one connection (RFC 9000 §8.1.4).
    pair.reconnect();
    assert_eq!(time_to_connect(&mut pair), RTT * 2);
}

#[test]
fn a_token_that_means_nothing_is_like_none() {
    let mut pair = Pair::with(|client, server| {
        server.retry = RetryPolicy::Always;
        client.token = Bytes::from_static(&[7; 64]);
    });
    assert_eq!(time_to_connect(&mut pair), RTT * 2);
}

/// Returns a network that drops the first `n` datagrams from `from`.
fn drop_first(from: Side, n: usize) -> Network {
    let mut seen = 0;
    Box::new(move |sender, flying| {
        seen += usize::from(sender == from);
        if sender == from && seen <= n { Vec::new() } else { vec![flying] }
    })
}

#[test]
fn lost_first_flights_are_made_up_for() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        for from in [Side::Client, Side::Server] {
            for n in 0..12 {
                let mut pair = Pair::with(|client, server| {
                    server.retry = retry;
                    let patient = |config: &mut Arc<crate::TransportConfig>| {
                        let config = Arc::make_mut(config);
                        config.handshake_timeout = Duration::from_secs(600);
                        config.max_idle_timeout = Some(Duration::from_secs(600));
                    };
                    patient(&mut client.transport);
                    patient(&mut server.transport);
                });
                pair.network = Some(drop_first(from, n));
                pair.run_until(Duration::from_secs(900), |pair| {
                    let confirmed = |events: &[Event]| events.contains(&Event::Confirmed);
                    confirmed(&pair.client_events) && confirmed(&pair.server_events)
                });
                let data = pattern(10_000);
                assert!(pair.transfer(Side::Server, &data) == data, "{n} datagrams of the {from:?} lost");
            }
        }
    }
}

#[test]
fn any_single_datagram_may_be_lost() {
    for from in [Side::Client, Side::Server] {
        for lost in 0..12 {
            let mut pair = Pair::new();
            let mut seen = 0;
            pair.network = Some(Box::new(move |sender, flying| {
                seen += usize::from(sender == from);
                if sender == from && seen == lost + 1 { Vec::new() } else { vec![flying] }
            }));
            pair.connect();
            let data = pattern(20_000);
            assert!(pair.transfer(Side::Client, &data) == data, "datagram {lost} of the {from:?}");
        }
    }
}

#[test]
fn repeated_and_reordered_handshakes_complete() {
    for seed in 0..40u64 {
        let mut pair = Pair::new();
        let mut state = seed * 2 + 1;
        pair.network = Some(Box::new(move |_, flying| {
            let mut copies = Vec::new();
            for _ in 0..3 {
                // A linear congruential generator is random enough.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let late = Duration::from_millis(state >> 58);
                copies.push(Flying { at: flying.at + late, ..flying.clone() });
            }
            copies
        }));
        pair.connect();
        let data = pattern(30_000);
        assert!(pair.transfer(Side::Client, &data) == data, "seed {seed}");
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    }
}

/// Configures a chain of nine certificates, about 14 KB in total.
fn long_chain(client: &mut ClientConfig, server: &mut ServerConfig) {
    let trust = Trust::new("localhost");
    let names: Vec<String> = (0..60).map(|n| format!("host-number-{n:03}.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut chain = vec![trust.identity.certificate.clone()];
    chain.extend((2..10).map(|seed| Identity::new(seed, &names).unwrap().certificate));
    assert!(chain.iter().map(|certificate| certificate.len()).sum::<usize>() > 12_000);
    let key = trust.identity.key.clone_key();
    server.tls = trust.server(ALPN).certificate(chain, key).build().unwrap();
    client.tls = trust.client(ALPN).build().unwrap();
}

#[test]
fn row_10_a_long_chain_stays_within_the_amplification_limit() {
    for lost in 0..6 {
        let mut pair = Pair::with(long_chain);
        if lost > 0 {
            pair.network = Some(drop_first(Side::Server, lost - 1));
        }
        let begin = pair.now;
        while !pair.client_events.contains(&Event::Confirmed) {
            assert!(pair.now - begin < Duration::from_secs(30) && pair.step());
            let validated = pair.server_handle.is_some() && pair.server().paths().next().unwrap().validated;
            assert!(validated || pair.bytes_to_client <= 3 * pair.bytes_to_server);
        }
        assert!(lost > 0 || pair.now - begin <= RTT * 4, "{:?}", pair.now - begin);
    }
}

#[test]
fn row_10_silence_after_the_first_flight_is_answered_three_times_at_most() {
    let mut pair = Pair::with(long_chain);
    let mut first = true;
    pair.network = Some(Box::new(move |sender, flying| {
        let through = sender == Side::Client && std::mem::replace(&mut first, false);
        if through { vec![flying] } else { Vec::new() }
    }));
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.server().stats().paths[0].recovery.ptos, 0, "no timer runs for what must not be sent");
    pair.run_for(Duration::from_secs(40));
    assert!(pair.bytes_to_client <= 3 * 1200, "{} bytes", pair.bytes_to_client);
    assert!(pair.bytes_to_client >= 3 * 1200 - 100, "{} bytes", pair.bytes_to_client);
}

#[test]
fn row_10_coalesced_and_undecryptable_bytes_count_once() {
    let mut pair = Pair::with(long_chain);
    let mut delivered = 0;
    let mut first = true;
    let sent = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = std::rc::Rc::clone(&sent);
    pair.network = Some(Box::new(move |sender, mut flying| {
        if sender == Side::Server || delivered >= 20 {
            return Vec::new();
        }
        delivered += 1;
        if !std::mem::replace(&mut first, false) {
            // Corrupts the Initial and appends junk.
            let len = flying.bytes.len();
            flying.bytes[len - 1] ^= 1;
            flying.bytes.extend([0x40; 100]);
        }
        seen.set(seen.get() + flying.bytes.len() as u64);
        vec![flying]
    }));
    for _ in 0..200 {
        pair.step();
        assert!(pair.bytes_to_client <= 3 * sent.get());
    }
    assert!(sent.get() > 3000, "the client tried again");
}

/// Configures a ClientHello that takes three datagrams.
fn long_hello(client: &mut ClientConfig) {
    let protocols = (0..60).map(|n| format!("a-protocol-with-a-rather-long-name-{n:04}"));
    let offered = Trust::new("localhost").client(ALPN).alpn(protocols.chain([ALPN.to_owned()]));
    client.tls = offered.build().unwrap();
}

#[test]
fn a_long_client_hello_arrives_in_any_order() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        for late in 0..6 {
            for lost in [false, true] {
                let mut pair = Pair::with(|client, server| {
                    long_hello(client);
                    server.retry = retry;
                });
                let mut seen = 0;
                pair.network = Some(Box::new(move |from, mut flying| {
                    seen += usize::from(from.is_client());
                    if from.is_client() && seen == late + 1 {
                        flying.at += Duration::from_millis(4);
                        return if lost { Vec::new() } else { vec![flying] };
                    }
                    vec![flying]
                }));
                pair.connect();
                assert_eq!(pair.server().alpn(), Some(ALPN.as_bytes()));
                assert!(pair.bytes_to_server > 3_600, "{} bytes", pair.bytes_to_server);
            }
        }
    }
}

fn versions(client: &'static [Version], server: &'static [Version]) -> Pair {
    Pair::with(|client_config, server_config| {
        client_config.initial_version = client[0];
        Arc::make_mut(&mut client_config.transport).versions = client.to_vec();
        Arc::make_mut(&mut server_config.transport).versions = server.to_vec();
    })
}

const V1: Version = Version::V1;
const V2: Version = Version::V2;
const REVERSO: Version = Version::REVERSO;

#[test]
fn versions_are_agreed_on() {
    // Client's versions, of which it starts with the first; server's versions in order of preference;
    // resulting version; round trips.
    let rows: &[(&'static [Version], &'static [Version], Version, u32)] = &[
        (&[V1], &[V1], V1, 1),
        (&[V1, V2], &[V1, V2], V1, 1),
        (&[V1, V2], &[V2, V1], V2, 1),
        (&[V2, V1], &[V2, V1], V2, 1),
        (&[V2, V1], &[V1, V2], V1, 1),
        (&[V2], &[V1, V2], V2, 1),
        // The server does not support the client's first version: Version Negotiation.
        (&[V2, V1], &[V1], V1, 2),
        (&[V1, V2], &[V2], V2, 2),
        (&[REVERSO], &[REVERSO, V1], REVERSO, 1),
        (&[V1, REVERSO], &[REVERSO, V1], REVERSO, 1),
        (&[V1, REVERSO], &[V1], V1, 1),
        (&[V1], &[REVERSO, V1], V1, 1),
        (&[V2, REVERSO], &[REVERSO, V1], REVERSO, 2),
        (&[REVERSO, V1], &[V1, REVERSO], V1, 1),
        (&[REVERSO, V1], &[V1], V1, 2),
        (&[V1, REVERSO], &[REVERSO], REVERSO, 2),
    ];
    for (client, server, expected, round_trips) in rows {
        let mut pair = versions(client, server);
        assert_eq!(time_to_connect(&mut pair), RTT * *round_trips, "{client:?} {server:?}");
        pair.connect();
        assert_eq!((pair.client().version(), pair.server().version()), (*expected, *expected));
        // The final version alone determines the number of the client's first stream.
        let first = pair.client().streams().open(Dir::Bi).unwrap();
        assert_eq!(first.index(), u64::from(*expected == REVERSO));
        pair.client().streams().write(first, b"first").unwrap();
        pair.run_until_quiet();
        assert_eq!(pair.server().streams().accept(Dir::Bi), Some(first));
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        assert!(pair.transfer(Side::Client, &data) == data);
    }
}

#[test]
fn an_upgrade_survives_loss_and_retry() {
    for (retry, to) in [
        (RetryPolicy::Never, V2),
        (RetryPolicy::Always, V2),
        (RetryPolicy::Never, REVERSO),
        (RetryPolicy::Always, REVERSO),
    ] {
        for from in [Side::Client, Side::Server] {
            for lost in 0..8 {
                let mut pair = Pair::with(|client, server| {
                    client.initial_version = V1;
                    Arc::make_mut(&mut client.transport).versions = vec![V1, to];
                    Arc::make_mut(&mut server.transport).versions = vec![to, V1];
                    server.retry = retry;
                });
                let mut seen = 0;
                pair.network = Some(Box::new(move |sender, flying| {
                    seen += usize::from(sender == from);
                    if sender == from && seen == lost + 1 { Vec::new() } else { vec![flying] }
                }));
                pair.connect();
                assert_eq!((pair.client().version(), pair.server().version()), (to, to));
            }
        }
    }
}

#[test]
fn no_common_version() {
    let mut pair = versions(&[V2], &[V1]);
    pair.run_until_quiet();
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::VersionMismatch));
    assert!(pair.client.is_empty());
}

/// Returns a Version Negotiation packet in response to the client's first Initial, with `versions`.
fn forged_negotiation(initial: &[u8], versions: &[Version]) -> Vec<u8> {
    let header = anabranch_wire::parse_packet(initial, 8).unwrap();
    let mut packet = vec![0xc0, 0, 0, 0, 0, header.scid.len() as u8];
    packet.extend_from_slice(&header.scid);
    packet.push(header.dcid.len() as u8);
    packet.extend_from_slice(&header.dcid);
    versions.iter().for_each(|version| packet.extend(version.0.to_be_bytes()));
    packet
}

/// Lets an attacker on the path answer the client's first Initial with a Version Negotiation for `offer`.
fn inject_negotiation(pair: &mut Pair, offer: &'static [Version]) {
    pair.drain();
    let packet = forged_negotiation(&pair.to_server[0].bytes, offer);
    pair.to_server.clear();
    pair.send_raw(Side::Server, packet);
    pair.run_for(Duration::from_secs(5));
}

#[test]
fn row_21_a_downgrade_by_version_negotiation_is_found_out() {
    // The server prefers v1 among the compatible versions, so only the client's own check detects the attack.
    let mut pair = versions(&[V2, V1], &[V1, V2]);
    inject_negotiation(&mut pair, &[V1]);
    let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else { panic!("a failure") };
    assert_eq!(error.code, Code::VERSION_NEGOTIATION_ERROR);
    let mut pair = versions(&[REVERSO, V1], &[V1, REVERSO]);
    inject_negotiation(&mut pair, &[V1]);
    let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else { panic!("a failure") };
    assert_eq!(error.code, Code::VERSION_NEGOTIATION_ERROR);
    // With a server that prefers v2, the attack has no effect.
    let mut pair = versions(&[V2, V1], &[V2, V1]);
    inject_negotiation(&mut pair, &[V1]);
    assert_eq!(pair.closed(Side::Client), None);
    assert_eq!(pair.client().version(), V2);
}

#[test]
fn row_21_version_negotiation_that_cannot_be_genuine_is_ignored() {
    let ignored = [Some(PacketKind::VersionNegotiation)];
    for (both, other) in [(&[V1, V2], &[V2]), (&[REVERSO, V1], &[V1])] {
        let mut pair = versions(both, both);
        let packets = observed(&mut pair, Side::Client);
        inject_negotiation(&mut pair, both);
        assert_eq!(packets.lock().unwrap().dropped, ignored, "it names the version that the client uses");
        assert_eq!(pair.closed(Side::Client), None);
        assert_eq!(pair.client().version(), both[0]);
        // A Version Negotiation packet that arrives after the server's answer has no effect.
        let mut pair = versions(both, both);
        let packets = observed(&mut pair, Side::Client);
        pair.drain();
        let packet = forged_negotiation(&pair.to_server[0].bytes.clone(), other);
        pair.connect();
        pair.send_raw(Side::Server, packet);
        pair.run_until_quiet();
        assert_eq!(
            (packets.lock().unwrap().dropped.as_slice(), pair.closed(Side::Client)),
            (&ignored[..], None)
        );
        // A Version Negotiation packet for other connection IDs has no effect either.
        let mut pair = versions(both, both);
        let packets = observed(&mut pair, Side::Client);
        pair.drain();
        let mut packet = forged_negotiation(&pair.to_server[0].bytes.clone(), other);
        let last_of_scid = packet.len() - 5;
        packet[last_of_scid] ^= 1;
        pair.send_raw(Side::Server, packet);
        pair.connect();
        assert_eq!(packets.lock().unwrap().dropped, ignored);
        assert_eq!(pair.client().version(), both[0]);
    }
}

/// Returns a Retry for the client's first Initial, whose integrity tag is valid if `genuine`.
fn forged_retry(initial: &[u8], genuine: bool) -> Vec<u8> {
    forged_retry_from(initial, &[0xaa; 8], genuine)
}

/// Returns a Retry with this Source Connection ID.
fn forged_retry_from(initial: &[u8], scid: &[u8], genuine: bool) -> Vec<u8> {
    let header = anabranch_wire::parse_packet(initial, 8).unwrap();
    let mut packet = vec![0xf0];
    let version = header.version.unwrap();
    packet.extend(version.0.to_be_bytes());
    packet.push(header.scid.len() as u8);
    packet.extend_from_slice(&header.scid);
    packet.push(scid.len() as u8);
    packet.extend_from_slice(scid);
    packet.extend(b"a token of the attacker's");
    let tag = anabranch_tls::retry_tag(version.format().unwrap(), &header.dcid, &packet);
    packet.extend(tag);
    if !genuine {
        *packet.last_mut().unwrap() ^= 1;
    }
    packet
}

#[test]
fn row_21_an_injected_retry_fails_the_handshake_and_a_broken_one_is_ignored() {
    for (genuine, kept) in [(true, false), (false, true)] {
        let mut pair = Pair::new();
        pair.drain();
        let packet = forged_retry(&pair.to_server[0].bytes.clone(), genuine);
        // The forged Retry overtakes the server's answer.
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        let at = pair.now;
        pair.to_client.push_back(Flying { at, tuple, ecn: None, bytes: packet });
        pair.run_for(Duration::from_secs(40));
        assert_eq!(pair.client_events.contains(&Event::Confirmed), kept);
    }
}

/// Passes `packet` to the client at once.
fn overtake(pair: &mut Pair, packet: Vec<u8>) {
    let tuple = FourTuple { local: client_addr(), remote: server_addr() };
    let at = pair.now;
    pair.to_client.push_front(Flying { at, tuple, ecn: None, bytes: packet });
    pair.step();
}

#[test]
fn a_second_retry_and_one_after_the_answer_are_ignored() {
    for retry in [RetryPolicy::Always, RetryPolicy::Never] {
        let mut pair = Pair::with(|_, server| server.retry = retry);
        let packets = observed(&mut pair, Side::Client);
        pair.drain();
        let forged = forged_retry(&pair.to_server[0].bytes, true);
        let chosen = pair.client().remote_cid();
        pair.run_until(RTT, |pair| !pair.to_client.is_empty());
        if retry == RetryPolicy::Never {
            // Of the server's answer, only the Initial packet arrives.
            pair.to_client.truncate(1);
            let first = &mut pair.to_client[0].bytes;
            let header = anabranch_wire::parse_packet(first, 8).unwrap();
            first.truncate(header.end);
        }
        pair.run_until(RTT, |pair| pair.client().remote_cid() != chosen);
        let followed = pair.client().remote_cid();
        overtake(&mut pair, forged);
        assert_eq!(pair.client().remote_cid(), followed, "{retry:?}");
        assert_eq!(packets.lock().unwrap().dropped, [Some(PacketKind::Retry)]);
        pair.connect();
    }
}

#[test]
fn a_second_version_negotiation_is_ignored() {
    let mut pair = versions(&[V2, V1], &[V1]);
    let packets = observed(&mut pair, Side::Client);
    pair.drain();
    let first = forged_negotiation(&pair.to_server[0].bytes, &[V1]);
    pair.to_server.clear();
    overtake(&mut pair, first);
    let second = forged_negotiation(&pair.to_server[0].bytes, &[V2]);
    assert_eq!(packets.lock().unwrap().dropped, []);
    overtake(&mut pair, second);
    assert_eq!(packets.lock().unwrap().dropped, [Some(PacketKind::VersionNegotiation)]);
    assert_eq!(time_to_connect(&mut pair), RTT);
    assert_eq!(pair.client().version(), V1);
}

/// Log of packets: the ack-eliciting ones sent, each with a flag for CRYPTO frames; the received ones; the
/// dropped ones.
#[derive(Default)]
struct Packets {
    sent: Vec<(PacketKind, bool)>,
    received: Vec<PacketKind>,
    dropped: Vec<Option<PacketKind>>,
}

struct Notes(Arc<Mutex<Packets>>);

impl Observer for Notes {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let mut packets = self.0.lock().unwrap();
        match event {
            TraceEvent::PacketSent(packet) => {
                let frames: Vec<_> = Frames::new(packet.payload, packet.direction).flatten().collect();
                if frames.iter().any(Frame::is_ack_eliciting) {
                    let crypto = frames.iter().any(|frame| matches!(frame, Frame::Crypto { .. }));
                    packets.sent.push((packet.kind, crypto));
                }
            }
            TraceEvent::PacketReceived(packet) => packets.received.push(packet.kind),
            TraceEvent::PacketDropped { kind, .. } => packets.dropped.push(*kind),
            _ => {}
        }
    }
}

fn observed(pair: &mut Pair, side: Side) -> Arc<Mutex<Packets>> {
    let packets = Arc::<Mutex<Packets>>::default();
    let now = pair.now;
    pair.end(side).set_observer(now, Box::new(Notes(Arc::clone(&packets))));
    packets
}

#[test]
fn probes_of_the_handshake_carry_crypto_as_long_as_there_is_any() {
    // The client receives nothing, so all packets after the first flights are probes.
    for (side, kinds) in [(Side::Client, 1), (Side::Server, 2)] {
        let mut pair = Pair::new();
        if side.is_server() {
            pair.advance_to(PacketKind::Initial, Side::Client);
        }
        let packets = observed(&mut pair, side);
        pair.network = Some(Box::new(|from, flying| {
            // The client's datagrams arrive, so that the anti-amplification limit does not block the server.
            if from.is_client() { vec![flying] } else { Vec::new() }
        }));
        pair.run_for(Duration::from_secs(20));
        let packets = packets.lock().unwrap();
        for kind in [PacketKind::Initial, PacketKind::Handshake].into_iter().take(kinds) {
            let probes: Vec<bool> =
                packets.sent.iter().filter(|one| one.0 == kind).map(|one| one.1).collect();
            assert!(probes.len() >= 4, "{side:?} {kind:?} {probes:?}");
            assert!(probes.iter().all(|crypto| *crypto), "{side:?} {kind:?} {probes:?}");
        }
    }
}

#[test]
fn observers_are_told_of_a_retry_and_not_of_padding() {
    let mut pair = Pair::with(|_, server| server.retry = RetryPolicy::Always);
    let packets = observed(&mut pair, Side::Client);
    // The server pads its Initials after the packet, as some servers do, rather than within it.
    pair.network = Some(Box::new(|from, mut flying| {
        // A Retry takes up the whole datagram.
        if from.is_server() && flying.bytes[0] & 0xb0 == 0x80 {
            let len = flying.bytes.len();
            flying.bytes.resize(len + 40, 0);
        }
        vec![flying]
    }));
    pair.connect();
    let packets = packets.lock().unwrap();
    assert_eq!(packets.received[0], PacketKind::Retry);
    assert!(packets.received.contains(&PacketKind::Initial));
    assert_eq!(packets.dropped, []);
}

#[test]
fn another_source_connection_id_is_dropped() {
    let cases = [
        (PacketKind::Initial, Side::Client),
        (PacketKind::Handshake, Side::Client),
        (PacketKind::Handshake, Side::Server),
    ];
    let ping = encode(&[Frame::Ping, Frame::Padding(3)]);
    for (kind, from) in cases {
        for other_scid in [false, true] {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            let now = pair.now;
            let seen = watch_sent(pair.end(from.peer()), now);
            let cid = pair.end(from.peer()).remote_cid();
            pair.inject(from, &Forged { other_scid, ..Forged::new(kind, &ping) });
            pair.run_for(Duration::from_millis(12));
            let expected = other_scid.then_some(DropReason::UnknownConnectionId);
            assert_eq!(seen.drops(), expected.into_iter().collect::<Vec<_>>(), "{kind:?} from the {from:?}");
            assert_eq!(pair.end(from.peer()).remote_cid(), cid);
            pair.connect();
        }
    }
}

/// A client of version 1 alone drops packets of version 2 before it looks for keys.
#[test]
fn packets_of_another_version_are_dropped() {
    let mut pair = versions(&[Version::V1], &[Version::V1]);
    let now = pair.now;
    let seen = watch_sent(pair.client(), now);
    let mut changed = 0;
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_server() && changed < 2 {
            changed += 1;
            flying.bytes[1..5].copy_from_slice(&Version::V2.0.to_be_bytes());
            // The types of version 2 follow those of version 1 (RFC 9369 §3.2).
            let kind = (flying.bytes[0] + 0x10) & 0x30;
            flying.bytes[0] = flying.bytes[0] & !0x30 | kind;
        }
        vec![flying]
    }));
    pair.connect();
    assert_eq!(seen.drops().first(), Some(&DropReason::UnexpectedVersion));
    assert_eq!(pair.client().version(), Version::V1);
    let data = pattern(10_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn a_retry_to_the_clients_own_choice_is_ignored() {
    for own in [false, true] {
        let mut pair = Pair::new();
        let packets = observed(&mut pair, Side::Client);
        pair.drain();
        let chosen = pair.client().remote_cid();
        let scid: &[u8] = if own { &chosen } else { &[0xaa; 8] };
        let forged = forged_retry_from(&pair.to_server[0].bytes, scid, true);
        overtake(&mut pair, forged);
        let dropped: &[_] = if own { &[Some(PacketKind::Retry)] } else { &[] };
        assert_eq!(
            (packets.lock().unwrap().dropped.as_slice(), pair.client().remote_cid() == chosen),
            (dropped, own)
        );
        if own {
            pair.connect();
        }
    }
}

#[test]
fn the_client_hello_is_the_same_after_a_retry() {
    let mut pair = Pair::with(|client, server| {
        long_hello(client);
        server.retry = RetryPolicy::Always;
    });
    let log = pair.log(Side::Client);
    pair.connect();
    let is_retry =
        |entry: &Entry| matches!(entry, Entry::Received(packet) if packet.kind == PacketKind::Retry);
    let retry = log.position(0, is_retry).unwrap();
    let hello = |entries: &[Entry]| {
        let mut bytes = Vec::new();
        for entry in entries {
            let Entry::Sent(packet) = entry else { continue };
            for frame in packet.frames().filter(|_| packet.kind == PacketKind::Initial) {
                if let Frame::Crypto { offset, data } = frame {
                    let (start, end) = (offset as usize, offset as usize + data.len());
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[start..end].copy_from_slice(data);
                }
            }
        }
        bytes
    };
    let (before, after) = (hello(&log.entries()[..retry]), hello(&log.entries()[retry..]));
    assert!(before.len() > 2_000 && before == after);
}

/// The frames of a packet that follow the one that completes the handshake have no effect, although its keys are gone.
#[test]
fn a_packet_may_repeat_the_frames_that_complete_the_handshake() {
    let mut pair = Pair::new();
    let log = pair.log(Side::Client);
    let mut flights = 0;
    pair.network = Some(Box::new(move |from, flying| {
        flights += u32::from(from == Side::Client);
        if from == Side::Client && flights > 1 { Vec::new() } else { vec![flying] }
    }));
    let crypto = |packet: &Packet| {
        packet.kind == PacketKind::Handshake && packet.has(|frame| matches!(frame, Frame::Crypto { .. }))
    };
    pair.run_until(Duration::from_secs(1), |_| log.sent().iter().any(crypto));
    let finished = log.sent().into_iter().find(crypto).unwrap();
    let frames: Vec<_> = finished.frames().chain(finished.frames()).collect();
    let now = pair.now;
    let packet = pair.client().forge(now, &Forged::new(PacketKind::Handshake, &encode(&frames)));
    pair.send_raw(Side::Client, packet);
    pair.network = None;
    pair.connect();
    pair.run_until_quiet();
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}
