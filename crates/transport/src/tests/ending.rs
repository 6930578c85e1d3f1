//! Ends of connections: closing, draining, stateless reset, timeouts (RFC 9000 §10).

use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{PacketKind, Side, TransportErrorCode as Code, VarInt};
use bytes::Bytes;

use super::injector::ping;
use super::pair::{Pair, pattern, version};
use crate::connection::Forged;
use crate::{ConnectionError, EndpointConfig, Event, Router};

/// Code with which an application closes.
const FIVE: VarInt = VarInt::from_u32(5);

fn connected() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    pair
}

/// Sends a PING from `from`, and returns the number of datagrams with which its peer responds at once.
fn answers(pair: &mut Pair, from: Side) -> usize {
    let now = pair.now;
    let bytes = pair.end(from).forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
    pair.send_raw(from, bytes);
    let delay = std::mem::take(&mut pair.delay);
    let queue = if from.is_client() { &mut pair.to_server } else { &mut pair.to_client };
    queue.back_mut().unwrap().at = now;
    pair.step();
    pair.delay = delay;
    let back = if from.is_client() { &mut pair.to_client } else { &mut pair.to_server };
    let count = back.len();
    back.clear();
    count
}

#[test]
fn a_closing_end_repeats_itself_ever_more_rarely() {
    for closer in [Side::Client, Side::Server] {
        let mut pair = connected();
        let now = pair.now;
        pair.end(closer).close(now, VarInt::from_u32(7), Bytes::new());
        pair.drain();
        // The peer does not receive the close and continues to send.
        pair.to_client.clear();
        pair.to_server.clear();
        let answered: Vec<usize> = (1..=40).filter(|_| answers(&mut pair, closer.peer()) == 1).collect();
        assert_eq!(answered, [1, 3, 7, 15, 31]);
    }
}

/// Whoever knows a connection ID must not make a closing endpoint send more than three times as much.
#[test]
fn a_closing_end_sends_no_more_than_three_times_what_it_gets() {
    for closer in [Side::Client, Side::Server] {
        let mut pair = connected();
        let now = pair.now;
        pair.end(closer).close(now, FIVE, Bytes::from(vec![b'x'; 256]));
        pair.drain();
        let first = if closer.is_client() { &mut pair.to_server } else { &mut pair.to_client };
        assert!(first[0].bytes.len() > 256);
        first.clear();
        let cid = pair.end(closer.peer()).remote_cid();
        let bytes = [&[0x40][..], &cid, &[9; 20]].concat();
        pair.delay = Duration::from_micros(100);
        let (mut received, mut sent, mut answers) = (0, 0, Vec::new());
        for datagram in 1..=40 {
            pair.send_raw(closer.peer(), bytes.clone());
            received += bytes.len();
            let due = pair.now + pair.delay;
            pair.run_until(Duration::from_secs(1), |pair| pair.now >= due);
            let back = if closer.is_client() { &mut pair.to_server } else { &mut pair.to_client };
            let back = std::mem::take(back);
            if !back.is_empty() {
                answers.push(datagram);
            }
            sent += back.iter().map(|flying| flying.bytes.len()).sum::<usize>();
            assert!(sent <= 3 * received, "{sent} bytes for {received}");
        }
        // A CONNECTION_CLOSE of 286 bytes costs four datagrams of 29. The third one is due after four more anyway.
        assert_eq!(answers, [4, 7, 11, 19, 35], "{closer:?}");
    }
}

#[test]
fn a_draining_end_answers_once_and_is_silent() {
    for closer in [Side::Client, Side::Server] {
        let mut pair = connected();
        let now = pair.now;
        pair.end(closer).close(now, VarInt::from_u32(7), Bytes::from_static(b"bye"));
        pair.run_for(Duration::from_millis(12));
        assert!(matches!(
            pair.closed(closer.peer()),
            Some(ConnectionError::PeerApplication { code, .. }) if *code == 7
        ));
        // RFC 9000 §10.2.2: one CONNECTION_CLOSE in response.
        let back = if closer.is_client() { &mut pair.to_client } else { &mut pair.to_server };
        assert_eq!(std::mem::take(back).len(), 1);
        for _ in 0..20 {
            assert_eq!(answers(&mut pair, closer), 0);
        }
        // After three PTOs both connections are removed.
        pair.run_for(Duration::from_secs(2));
        assert!(pair.client.is_empty() && pair.server.is_empty());
    }
}

#[test]
fn both_ends_close_at_once() {
    let mut pair = connected();
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(1), Bytes::new());
    pair.server().close(now, VarInt::from_u32(2), Bytes::new());
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::LocallyClosed));
    assert_eq!(pair.closed(Side::Server), Some(&ConnectionError::LocallyClosed));
    assert!(pair.client.is_empty() && pair.server.is_empty());
}

#[test]
fn during_the_handshake_an_application_close_keeps_its_words_private() {
    // RFC 9000 §10.2.3
    let hidden = Some(Code::APPLICATION_ERROR);
    let no_reason = |error: Option<&ConnectionError>| match error {
        Some(ConnectionError::PeerTransport(error)) => error.reason.is_empty(),
        _ => false,
    };
    let mut pair = Pair::new();
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(99), Bytes::from_static(b"secret"));
    pair.run_until_quiet();
    assert_eq!(pair.code_seen_by(Side::Server), hidden);
    assert!(no_reason(pair.closed(Side::Server)));
    let mut pair = Pair::new();
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let now = pair.now;
    pair.to_client.clear();
    pair.server().close(now, VarInt::from_u32(99), Bytes::from_static(b"secret"));
    pair.run_until_quiet();
    assert_eq!(pair.code_seen_by(Side::Client), hidden);
    assert!(no_reason(pair.closed(Side::Client)));
}

#[test]
fn a_close_is_understood_whatever_got_lost_before() {
    // The client closes right after its handshake is complete, when the server may not know that yet.
    for lost in [false, true] {
        let mut pair = Pair::new();
        pair.run_until(Duration::from_secs(1), |pair| {
            pair.client_events.iter().any(|event| matches!(event, Event::Connected { .. }))
        });
        if lost {
            pair.to_server.clear();
        }
        let now = pair.now;
        pair.client().close(now, FIVE, Bytes::new());
        pair.run_until_quiet();
        assert!(
            matches!(
                pair.closed(Side::Server),
                Some(ConnectionError::PeerApplication { code: FIVE, .. } | ConnectionError::PeerTransport(_))
            ),
            "{:?}",
            pair.closed(Side::Server)
        );
    }
}

#[test]
fn a_restarted_server_resets_its_old_connections() {
    let mut pair = connected();
    pair.restart_server(|_| {});
    pair.client().ping(anabranch_wire::PathId::ZERO);
    pair.run_for(Duration::from_millis(30));
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::Reset));
    let sent = pair.bytes_to_server;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.bytes_to_server, sent, "a reset end is silent");
    assert!(pair.client.is_empty());
}

#[test]
fn a_restarted_server_resets_in_the_middle_of_an_upload() {
    let mut pair = connected();
    let id = pair.client().streams().open(anabranch_wire::Dir::Uni).unwrap();
    pair.client().streams().write(id, &pattern(800_000)).unwrap();
    pair.run_for(Duration::from_millis(45));
    pair.restart_server(|_| {});
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::Reset));
}

/// The bytes in the place of the connection ID may be one of the receiver's.
#[test]
fn a_reset_to_a_connection_id_in_use_is_recognized() {
    let cases = [Side::Client, Side::Server].map(|victim| [false, true].map(|long| (victim, long)));
    for ((victim, long), batch) in cases.into_iter().flatten().flat_map(|case| [(case, 1), (case, 4)]) {
        let mut pair = connected();
        // The first connection ID of a client has no token.
        pair.end(victim.peer()).rotate_cids();
        pair.run_until_quiet();
        let seed = if victim.is_client() { [2; 32] } else { [1; 32] };
        let router = Router::new(&EndpointConfig::new(seed), None);
        let token = router.shared().reset_token(&pair.end(victim).remote_cid()).0;
        let own = pair.end(victim.peer()).remote_cid();
        let header = if long {
            [&[0xe0][..], &version().0.to_be_bytes(), &[8], &own, &[0, 0x40, 40 + 16]].concat()
        } else {
            [&[0x41][..], &own].concat()
        };
        let mut wrong = token;
        wrong[15] ^= 1;
        for (token, expected) in [(wrong, None), (token, Some(&ConnectionError::Reset))] {
            for _ in 0..batch {
                pair.send_raw(victim.peer(), [&header[..], &[9; 40], &token].concat());
            }
            pair.run_for(Duration::from_millis(15));
            assert_eq!(pair.closed(victim), expected, "{victim:?}, {batch} with a long header: {long}");
        }
    }
}

#[test]
fn a_guessed_reset_is_nothing() {
    let mut pair = connected();
    for guess in 0..100u8 {
        let mut bytes = vec![guess; 60];
        bytes[0] = 0x40 | guess & 0x3f;
        pair.send_raw(Side::Server, bytes);
    }
    // None of the guesses is the stateless reset token, so the connection continues.
    pair.run_until_quiet();
    assert_eq!(pair.closed(Side::Client), None);
    let data = pattern(10_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

#[test]
fn the_smaller_idle_timeout_holds() {
    for (client, server) in [(3, 10), (10, 3)] {
        let mut pair = Pair::with(|client_config, server_config| {
            Arc::make_mut(&mut client_config.transport).max_idle_timeout = Some(Duration::from_secs(client));
            Arc::make_mut(&mut server_config.transport).max_idle_timeout = Some(Duration::from_secs(server));
        });
        pair.connect();
        pair.run_until_quiet();
        pair.run_for(Duration::from_millis(2_400));
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
        pair.run_for(Duration::from_millis(700));
        assert!(matches!(pair.closed(Side::Client), Some(ConnectionError::TimedOut(_))));
        assert!(matches!(pair.closed(Side::Server), Some(ConnectionError::TimedOut(_))));
    }
}

/// RFC 9000 §10.1: three probe timeouts, even if that is longer than the idle timeout.
#[test]
fn an_idle_timeout_outlasts_three_probe_timeouts() {
    let mut pair = Pair::with_transport(|config| config.max_idle_timeout = Some(Duration::from_millis(100)));
    pair.delay = Duration::from_millis(400);
    pair.connect();
    pair.run_for(Duration::from_secs(1));
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    let acked = |pair: &mut Pair| pair.client().paths().next().unwrap().recovery.acked_packets;
    let before = acked(&mut pair);
    pair.client().ping(anabranch_wire::PathId::ZERO);
    pair.run_for(Duration::from_millis(900));
    assert!(acked(&mut pair) > before);
    pair.run_for(Duration::from_secs(1));
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    pair.run_for(Duration::from_secs(20));
    assert!(matches!(pair.closed(Side::Client), Some(ConnectionError::TimedOut(_))));
    assert!(matches!(pair.closed(Side::Server), Some(ConnectionError::TimedOut(_))));
}

#[test]
fn traffic_keeps_an_idle_timeout_away() {
    let mut pair = Pair::with_transport(|config| config.max_idle_timeout = Some(Duration::from_secs(2)));
    pair.connect();
    for _ in 0..10 {
        pair.run_for(Duration::from_millis(1_500));
        pair.client().ping(anabranch_wire::PathId::ZERO);
    }
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}

#[test]
fn a_server_that_is_not_there() {
    let mut pair = Pair::new();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    pair.run_for(Duration::from_secs(31));
    assert!(matches!(pair.closed(Side::Client), Some(ConnectionError::TimedOut(_))));
    assert!(pair.client.is_empty());
    assert!(pair.bytes_to_server < 40_000, "{} bytes", pair.bytes_to_server);
}

#[test]
fn a_client_that_goes_away_in_the_handshake() {
    let mut pair = Pair::new();
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    pair.network = Some(Box::new(|_, _| Vec::new()));
    pair.to_client.clear();
    pair.run_for(Duration::from_secs(40));
    assert!(matches!(pair.closed(Side::Server), Some(ConnectionError::TimedOut(_))));
    assert!(pair.server.is_empty());
}

#[test]
fn a_network_that_dies_under_load() {
    let mut pair = connected();
    let id = pair.server().streams().open(anabranch_wire::Dir::Uni).unwrap();
    pair.server().streams().write(id, &pattern(800_000)).unwrap();
    pair.run_for(Duration::from_millis(45));
    pair.network = Some(Box::new(|_, _| Vec::new()));
    let before = pair.bytes_to_client;
    pair.run_for(Duration::from_secs(40));
    assert!(matches!(pair.closed(Side::Client), Some(ConnectionError::TimedOut(_))));
    assert!(matches!(pair.closed(Side::Server), Some(ConnectionError::TimedOut(_))));
    assert!(pair.bytes_to_client - before < 600_000, "backs off");
    assert!(pair.client.is_empty() && pair.server.is_empty());
}
