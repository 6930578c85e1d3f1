//! Encryption levels: which packets are sent at which time, and when keys are discarded (RFC 9001 §4.9).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{ConnectionId, PacketKind, Side, SpaceId, TransportErrorCode as Code};

use super::log::{Entry, kinds};
use super::pair::{Flying, Pair};

/// Kinds of the packets of each datagram, in order.
type Datagrams = Rc<RefCell<Vec<Vec<PacketKind>>>>;

#[test]
fn a_client_that_closes_repeats_itself_in_handshake_packets() {
    let mut pair = Pair::with(|_, server| {
        Arc::make_mut(&mut server.transport).hooks.parameters =
            Some(|p| p.initial_source_connection_id = ConnectionId::new(&[9; 8]));
    });
    let sent = Datagrams::default();
    let into = Rc::clone(&sent);
    pair.network = Some(Box::new(move |from, flying| {
        if from.is_server() {
            let copy = Flying { at: flying.at + Duration::from_millis(5), ..flying.clone() };
            return vec![flying, copy];
        }
        into.borrow_mut().push(kinds(&flying.bytes));
        // The first CONNECTION_CLOSE is lost.
        if into.borrow().len() == 2 { Vec::new() } else { vec![flying] }
    }));
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.code_seen_by(Side::Server), Some(Code::TRANSPORT_PARAMETER_ERROR));
    let sent = sent.borrow();
    assert_eq!(sent[0], [PacketKind::Initial]);
    assert_eq!(sent[1], [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt]);
    assert!(sent.len() > 2, "the client repeats its CONNECTION_CLOSE");
    for kinds in &sent[2..] {
        assert_eq!(*kinds, [PacketKind::Handshake, PacketKind::OneRtt]);
    }
}

#[test]
fn keys_are_discarded_as_soon_as_they_may_be() {
    for repeats in [false, true] {
        let mut pair = Pair::new();
        pair.network = Some(Box::new(move |_, flying| {
            let copy = Flying { at: flying.at + Duration::from_millis(5), ..flying.clone() };
            if repeats { vec![flying, copy] } else { vec![flying] }
        }));
        let client = pair.log(Side::Client);
        pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
        let server = pair.log(Side::Server);
        pair.connect();
        pair.run_until_quiet();
        // A client discards the Initial keys when it sends its first Handshake packet, a server when it has
        // received one.
        let is_sent = |entry: &Entry, kind| matches!(entry, Entry::Sent(packet) if packet.kind == kind);
        let sends = client.position(0, |entry| is_sent(entry, PacketKind::Handshake)).unwrap();
        let discards = |entry: &Entry| matches!(entry, Entry::KeysDiscarded(SpaceId::Initial));
        let discarded = client.position(0, discards).unwrap();
        assert!(discarded > sends, "not before");
        let received = client.position(sends, |entry| matches!(entry, Entry::Received(_))).unwrap();
        assert!(discarded < received, "and not later");
        let receives =
            |entry: &Entry| matches!(entry, Entry::Received(packet) if packet.kind == PacketKind::Handshake);
        let received = server.position(0, receives).unwrap();
        assert_eq!(server.position(0, discards), Some(received + 1));
        assert_eq!(client.position(discarded, |entry| is_sent(entry, PacketKind::Initial)), None);
        assert_eq!(server.position(received, |entry| is_sent(entry, PacketKind::Initial)), None);
        // Both discard the Handshake keys when the handshake is confirmed.
        for log in [&client, &server] {
            let confirmed = log.position(0, |entry| matches!(entry, Entry::Confirmed));
            let discarded =
                log.position(0, |entry| matches!(entry, Entry::KeysDiscarded(SpaceId::Handshake)));
            assert_eq!(confirmed, Some(discarded.unwrap() + 1));
        }
    }
}
