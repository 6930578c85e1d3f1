//! Behavior of every connection: handshake, transfer, close.

use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::seeded::Trust;
use anabranch_wire::{Dir, Side, TransportErrorCode, VarInt};
use bytes::Bytes;

use super::pair::{ALPN, Pair, pattern, version};
use crate::{ConnectionError, Event};

#[test]
fn a_handshake_takes_one_round_trip_and_is_confirmed_in_the_second() {
    let mut pair = Pair::new();
    let begin = pair.now;
    pair.run_until(Duration::from_secs(1), |pair| {
        pair.client_events.contains(&Event::Connected { early_data_accepted: false })
    });
    assert_eq!(pair.now - begin, Duration::from_millis(20));
    pair.connect();
    assert_eq!(pair.now - begin, Duration::from_millis(40));
    assert_eq!(pair.client().alpn(), Some(ALPN.as_bytes()));
    assert_eq!(pair.server().alpn(), Some(ALPN.as_bytes()));
    assert_eq!(pair.server().server_name(), Some("localhost"));
    assert_eq!(pair.client().version(), version());
}

#[test]
fn a_transfer_arrives_whole_in_both_directions() {
    let mut pair = Pair::new();
    pair.connect();
    let data = pattern(3_000_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert!(pair.transfer(Side::Server, &data) == data);
    let stats = pair.client().stats();
    assert_eq!(stats.paths[0].recovery.lost_packets, 0);
    assert_eq!(stats.undecryptable, 0);
    assert_eq!(stats.paths[0].mtu, 1472);
}

#[test]
fn the_application_closes_with_its_code_and_words() {
    let mut pair = Pair::new();
    pair.connect();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(42), Bytes::from_static(b"done"));
    pair.run_until_quiet();
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::LocallyClosed));
    let expected =
        ConnectionError::PeerApplication { code: VarInt::from_u32(42), reason: Bytes::from_static(b"done") };
    assert_eq!(pair.closed(Side::Server), Some(&expected));
    pair.run_for(Duration::from_secs(5));
    assert!(pair.client.is_empty());
    assert!(pair.server.is_empty());
}

#[test]
fn silence_ends_the_connection_after_the_idle_timeout() {
    let mut pair = Pair::with_transport(|config| config.max_idle_timeout = Some(Duration::from_secs(3)));
    pair.connect();
    pair.run_until_quiet();
    let (sent, received) = (pair.bytes_to_server, pair.bytes_to_client);
    pair.run_for(Duration::from_secs(4));
    assert!(matches!(pair.closed(Side::Client), Some(ConnectionError::TimedOut(_))));
    assert!(matches!(pair.closed(Side::Server), Some(ConnectionError::TimedOut(_))));
    assert_eq!((pair.bytes_to_server, pair.bytes_to_client), (sent, received), "an idle end is silent");
}

#[test]
fn keep_alive_keeps_a_connection_alive() {
    let mut pair = Pair::with(|client, _| {
        let transport = Arc::make_mut(&mut client.transport);
        transport.max_idle_timeout = Some(Duration::from_secs(3));
        transport.keep_alive = Some(Duration::from_secs(1));
    });
    pair.connect();
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.closed(Side::Client), None);
    assert_eq!(pair.closed(Side::Server), None);
}

#[test]
fn a_keep_alive_is_acknowledged_at_once_and_then_the_end_rests_again() {
    let mut pair = Pair::with(|client, _| {
        Arc::make_mut(&mut client.transport).keep_alive = Some(Duration::from_secs(5));
    });
    pair.connect();
    pair.run_for(Duration::from_secs(2));
    for _ in 0..3 {
        let now = pair.now;
        pair.server().rest(now);
        assert!(!pair.server().has_ready_keys());
        let (acks, received) = (pair.server().stats().acks.frames, pair.server().stats().bytes_received());
        pair.run_until(Duration::from_secs(6), |pair| pair.server().stats().bytes_received() > received);
        assert_eq!(pair.server().stats().acks.frames, acks + 1, "the acknowledgment waits");
        assert_eq!(pair.server().rest_at(), Some(pair.now));
    }
    // An end that has rested delays the acknowledgment of data, for which a response may come, and rests later.
    let now = pair.now;
    pair.server().rest(now);
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    pair.client().streams().write(id, b"data").unwrap();
    let received = pair.server().stats().bytes_received();
    pair.run_until(Duration::from_secs(1), |pair| pair.server().stats().bytes_received() > received);
    assert_eq!(pair.server().rest_at(), Some(pair.now + Duration::from_secs(1)));
}

#[test]
fn without_a_common_protocol_the_handshake_fails_with_its_alert() {
    let mut pair = Pair::with(|client, _| {
        client.tls = Trust::new("localhost").client("other").build().unwrap();
    });
    pair.run_until_quiet();
    let Some(ConnectionError::PeerTransport(error)) = pair.closed(Side::Client) else {
        panic!("{:?}", pair.closed(Side::Client));
    };
    assert_eq!(error.code, TransportErrorCode(0x178));
}
