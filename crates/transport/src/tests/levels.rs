//! Encryption levels: which packets are sent at which time, and when keys are discarded (RFC 9001 §4.9).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{ConnectionId, PacketKind, Side, TransportErrorCode as Code, parse_packet};

use super::pair::{Flying, Pair};

/// Kinds of the packets of each datagram, in order.
type Datagrams = Rc<RefCell<Vec<Vec<PacketKind>>>>;

/// Returns the kinds of the packets in a datagram.
fn kinds(mut rest: &[u8]) -> Vec<PacketKind> {
    let mut kinds = Vec::new();
    while let Ok(header) = parse_packet(rest, 8) {
        kinds.push(header.kind);
        rest = &rest[header.end..];
    }
    kinds
}

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
