//! Packets and datagrams on the wire: sizes, headers, acknowledgments (RFC 9000 §12, §13, §14, §17).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::seeded::Trust;
use anabranch_wire::{Frame, PacketKind, Side};
use bytes::Bytes;

use super::injector::ping;
use super::log::{kinds, packets};
use super::pair::{Pair, pattern, version};
use crate::connection::Forged;
use crate::trace::DropReason;
use crate::{MultipathConfig, RetryPolicy};

const SIDES: [Side; 2] = [Side::Client, Side::Server];
const KINDS: [PacketKind; 3] = [PacketKind::Initial, PacketKind::Handshake, PacketKind::OneRtt];

/// Bits of the first byte that no header protection covers.
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;

fn connected() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    pair
}

/// Datagrams of both ends, in order.
type Recorded = Rc<RefCell<Vec<(Side, Vec<u8>)>>>;

/// Records all datagrams, of which `lose` takes some away. It gets their sender and their number.
fn record(pair: &mut Pair, lose: impl Fn(Side, usize) -> bool + 'static) -> Recorded {
    let recorded = Recorded::default();
    let into = Rc::clone(&recorded);
    pair.network = Some(Box::new(move |from, flying| {
        let mut recorded = into.borrow_mut();
        let number = recorded.iter().filter(|one| one.0 == from).count();
        recorded.push((from, flying.bytes.clone()));
        if lose(from, number) { Vec::new() } else { vec![flying] }
    }));
    recorded
}

#[test]
fn the_packets_of_a_datagram_have_one_destination() {
    for (retry, multipath) in
        [(RetryPolicy::Never, false), (RetryPolicy::Always, false), (RetryPolicy::Never, true)]
    {
        let mut pair = Pair::with(|client, server| {
            server.retry = retry;
            for transport in [&mut client.transport, &mut server.transport] {
                Arc::make_mut(transport).multipath = multipath.then(MultipathConfig::default);
            }
        });
        let recorded = record(&mut pair, |_, _| false);
        pair.connect();
        let mut most = 0;
        for (from, datagram) in recorded.borrow().iter() {
            let packets = packets(datagram);
            most = most.max(packets.len());
            assert!(packets.iter().all(|one| one.1 == packets[0].1), "{from:?} {packets:?}");
        }
        assert!(most >= 2, "some datagrams have several packets");
    }
}

/// Returns a Handshake packet to `pair`'s other end that no key opens.
fn junk(pair: &mut Pair, from: Side) -> Vec<u8> {
    let mut junk = vec![0xe0];
    junk.extend(version().0.to_be_bytes());
    junk.push(8);
    junk.extend_from_slice(&pair.end(from).remote_cid());
    junk.push(8);
    junk.extend_from_slice(&pair.end(from.peer()).remote_cid());
    junk.push(60);
    junk.extend([9; 60]);
    junk
}

#[test]
fn a_packet_that_cannot_be_decrypted_does_not_hide_the_next() {
    for kind in [PacketKind::Handshake, PacketKind::OneRtt] {
        for from in SIDES {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            let log = pair.log(from.peer());
            let mut datagram = junk(&mut pair, from);
            let now = pair.now;
            datagram.extend(pair.end(from).forge(now, &Forged::new(kind, &ping())));
            pair.send_raw(from, datagram);
            pair.run_for(pair.delay);
            let reason = if kind == PacketKind::OneRtt {
                DropReason::KeyUnavailable
            } else {
                DropReason::Undecryptable
            };
            assert_eq!(log.dropped(), [(Some(PacketKind::Handshake), reason)], "{kind:?} from the {from:?}");
            assert_eq!(log.received().iter().map(|packet| packet.kind).collect::<Vec<_>>(), [kind]);
        }
    }
}

#[test]
fn no_packet_is_empty() {
    let mut pair = Pair::new();
    let client = pair.log(Side::Client);
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let server = pair.log(Side::Server);
    pair.connect();
    let data = pattern(100_000);
    for side in SIDES {
        assert!(pair.transfer(side, &data) == data);
    }
    let now = pair.now;
    pair.client().migrate(now, ([127, 0, 0, 3], 50_001).into()).unwrap();
    pair.run_until_quiet();
    pair.client().close(now, anabranch_wire::VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    for log in [client, server] {
        let sent = log.sent();
        assert!(sent.len() > 20);
        assert!(sent.iter().all(|packet| packet.has(|frame| !matches!(frame, Frame::Padding(_)))));
    }
}

#[test]
fn packets_of_the_handshake_are_acknowledged_at_once() {
    for kind in [PacketKind::Initial, PacketKind::Handshake] {
        for from in SIDES {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            let log = pair.log(from.peer());
            pair.inject(from, &Forged::new(kind, &ping()));
            let arrives = pair.now + pair.delay;
            pair.run_until(pair.delay * 2, |pair| pair.now >= arrives);
            assert_eq!(pair.now, arrives);
            let acks = |packet: &super::log::Packet| {
                packet.kind == kind && packet.has(|frame| matches!(frame, Frame::Ack(_)))
            };
            assert!(log.sent().iter().any(acks), "{kind:?} from the {from:?}");
        }
    }
}

#[test]
fn a_packet_causes_one_ack_only_packet_at_most() {
    for from in SIDES {
        let mut pair = connected();
        let sent = |pair: &mut Pair| pair.end(from.peer()).stats().paths[0].recovery.sent_packets;
        let before = sent(&mut pair);
        for round in 1..=25 {
            pair.inject_frames(from, &[Frame::Ping, Frame::Padding(8)]);
            pair.run_for(Duration::from_millis(50));
            assert_eq!(sent(&mut pair) - before, round, "{from:?}");
        }
    }
}

#[test]
fn few_ack_only_packets_carry_a_ping() {
    let mut pair = connected();
    let log = pair.log(Side::Server);
    for _ in 0..200 {
        pair.inject_frames(Side::Client, &[Frame::Ping, Frame::Padding(8)]);
        pair.run_for(Duration::from_millis(30));
    }
    let sent = log.sent();
    let acks = sent.iter().filter(|packet| packet.has(|frame| matches!(frame, Frame::Ack(_)))).count();
    let pings = sent.iter().filter(|packet| packet.has(|frame| *frame == Frame::Ping)).count();
    assert!(pings >= 3, "{pings} of {acks}");
    assert!(pings * 32 <= acks, "{pings} of {acks}");
}

#[test]
fn a_small_datagram_with_an_initial_is_dropped() {
    let mut pair = Pair::new();
    pair.advance_to(PacketKind::Initial, Side::Client);
    let log = pair.log(Side::Server);
    let now = pair.now;
    let packet = pair.client().forge(now, &Forged::new(PacketKind::Initial, &ping()));
    assert!(packet.len() < 100);
    pair.send_raw(Side::Client, packet.clone());
    let answered = pair.bytes_to_client;
    pair.run_for(pair.delay);
    assert_eq!(log.dropped(), [(Some(PacketKind::Initial), DropReason::Unexpected)]);
    assert_eq!((pair.closed(Side::Server), pair.bytes_to_client), (None, answered));
    // The same packet in a larger datagram counts.
    let mut padded = packet;
    padded.resize(1200, 0);
    pair.send_raw(Side::Client, padded);
    pair.run_for(pair.delay);
    assert_eq!(log.received().len(), 1);
    pair.connect();
}

#[test]
fn datagrams_with_initials_have_full_size() {
    let mut eliciting = 0;
    for side in SIDES {
        for lost in 0..8 {
            let mut pair = Pair::new();
            let recorded = record(&mut pair, move |from, number| from == side && number == lost);
            pair.run_until(Duration::from_secs(5), |pair| pair.server_handle.is_some());
            // The server's first flight has a ServerHello.
            let first = recorded.borrow().iter().find(|one| one.0.is_server()).cloned().unwrap().1;
            assert!(kinds(&first)[0] == PacketKind::Initial && first.len() >= 1200);
            let log = pair.log(Side::Server);
            let (mut from_client, so_far) = (recorded.borrow().clone(), recorded.borrow().len());
            pair.connect();
            let is_initial = |datagram: &[u8]| kinds(datagram)[0] == PacketKind::Initial;
            from_client.extend(recorded.borrow()[so_far..].iter().cloned());
            from_client.retain(|(from, datagram)| from.is_client() && is_initial(datagram));
            assert!(from_client.iter().all(|(_, datagram)| datagram.len() >= 1200));
            let later = recorded.borrow()[so_far..].to_vec();
            let datagrams = later.iter().filter(|(from, datagram)| from.is_server() && is_initial(datagram));
            let sent: Vec<_> =
                log.sent().into_iter().filter(|packet| packet.kind == PacketKind::Initial).collect();
            assert_eq!(sent.len(), datagrams.clone().count());
            for (packet, (_, datagram)) in sent.iter().zip(datagrams) {
                assert!(!packet.is_eliciting() || datagram.len() >= 1200);
                eliciting += usize::from(packet.is_eliciting());
            }
        }
    }
    assert!(eliciting > 0, "the server repeats its ServerHello");
}

/// Returns a pair that does not grease the fixed bit, at the level of `kind`.
fn without_grease(kind: PacketKind, from: Side) -> Pair {
    let mut pair = Pair::with_transport(|config| config.grease = false);
    pair.advance_to(kind, from);
    pair
}

#[test]
fn packets_without_the_fixed_bit_are_discarded() {
    for kind in KINDS {
        for from in SIDES {
            for inverted in [0, FIXED] {
                let mut pair = without_grease(kind, from);
                let log = pair.log(from.peer());
                pair.inject(from, &Forged { inverted, ..Forged::new(kind, &ping()) });
                pair.run_for(pair.delay);
                let dropped: &[_] =
                    if inverted == FIXED { &[(Some(kind), DropReason::Malformed)] } else { &[] };
                assert_eq!(log.dropped(), dropped, "{kind:?} from the {from:?}");
                assert_eq!(log.received().len(), usize::from(inverted == 0));
                assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
            }
        }
    }
}

#[test]
fn an_initial_of_the_server_with_a_token_is_discarded() {
    for (token, is_dropped) in [(&b""[..], false), (b"token", true)] {
        let mut pair = Pair::new();
        pair.advance_to(PacketKind::Initial, Side::Server);
        let log = pair.log(Side::Client);
        pair.inject(Side::Server, &Forged { token, ..Forged::new(PacketKind::Initial, &ping()) });
        pair.run_for(pair.delay);
        let dropped: &[_] =
            if is_dropped { &[(Some(PacketKind::Initial), DropReason::Unexpected)] } else { &[] };
        assert_eq!((log.dropped().as_slice(), log.received().len()), (dropped, usize::from(!is_dropped)));
        pair.connect();
    }
}

#[test]
fn the_spin_bit_is_never_set() {
    let mut pair = Pair::with_transport(|config| config.grease = false);
    let recorded = record(&mut pair, |_, _| false);
    pair.connect();
    let data = pattern(100_000);
    for side in SIDES {
        assert!(pair.transfer(side, &data) == data);
    }
    for side in SIDES {
        let recorded = recorded.borrow();
        let firsts = recorded.iter().filter(|one| one.0 == side && one.1[0] & 0x80 == 0).map(|one| one.1[0]);
        assert!(firsts.clone().count() > 20);
        assert!(firsts.clone().all(|first| first & (FIXED | SPIN) == FIXED));
    }
}

#[test]
fn the_spin_bit_of_the_peer_changes_nothing() {
    for from in SIDES {
        let mut pair = without_grease(PacketKind::OneRtt, from);
        let log = pair.log(from.peer());
        for inverted in [SPIN, 0, SPIN, SPIN] {
            pair.inject(from, &Forged { inverted, ..Forged::new(PacketKind::OneRtt, &ping()) });
        }
        pair.run_until_quiet();
        assert_eq!((log.received().len(), log.dropped().len()), (4, 0));
        assert!(log.sent().iter().any(|packet| packet.has(|frame| matches!(frame, Frame::Ack(_)))));
        assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    }
}

#[test]
fn a_client_issues_no_tokens() {
    let mut pair = Pair::with(|_, server| server.new_tokens = 4);
    let client = pair.log(Side::Client);
    pair.connect();
    let server = pair.log(Side::Server);
    let data = pattern(10_000);
    for side in SIDES {
        assert!(pair.transfer(side, &data) == data);
    }
    let issues = |frame: &Frame<'_>| matches!(frame, Frame::NewToken { .. });
    assert!(!client.sent().iter().any(|packet| packet.has(issues)));
    let received = client.received().iter().filter(|packet| packet.has(issues)).count();
    assert!(received > 0, "{} packets of the server", server.sent().len());
}

#[test]
fn the_handshake_is_confirmed_only_when_it_is_complete() {
    let mut pair = Pair::with(|_, server| {
        server.tls = Trust::new("localhost").server(super::pair::ALPN).build().unwrap();
    });
    let mut seen = 0;
    pair.network = Some(Box::new(move |from, mut flying| {
        seen += usize::from(from.is_client());
        if from.is_client() && seen > 1 {
            flying.at += Duration::from_secs(1);
        }
        vec![flying]
    }));
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let log = pair.log(Side::Server);
    let confirms = |frame: &Frame<'_>| *frame == Frame::HandshakeDone;
    // The server may send data before the client's Finished arrives.
    let id = pair.server().streams().open(anabranch_wire::Dir::Uni).unwrap();
    pair.server().streams().write(id, b"early").unwrap();
    pair.run_for(Duration::from_millis(900));
    assert!(log.sent().iter().any(|packet| packet.kind == PacketKind::OneRtt));
    assert!(!log.sent().iter().any(|packet| packet.has(confirms)));
    pair.connect();
    assert!(log.sent().iter().any(|packet| packet.has(confirms)));
}

#[test]
fn a_full_window_holds_datagrams_back() {
    let mut pair = Pair::with_transport(|config| config.datagram_send_buffer = 1_000_000);
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    for _ in 0..800 {
        pair.server().datagrams().send(Bytes::from(pattern(1_000))).unwrap();
    }
    let before = pair.bytes_to_client;
    let window = pair.server().stats().paths[0].window;
    pair.run_for(Duration::from_millis(30));
    let sent = pair.bytes_to_client - before;
    assert!(sent > window / 2 && sent <= window, "{sent} bytes in a window of {window}");
}
