//! Key updates and usage limits of keys (RFC 9001 §6).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{Dir, Frame, PacketKind, Side, SpaceId, TransportErrorCode as Code, VarInt};
use bytes::Bytes;

use super::injector::{encode, ping};
use super::log::{Entry, kinds};
use super::pair::{Pair, pattern};
use crate::connection::Forged;
use crate::trace::DropReason;
use crate::{ConnectionError, Event};

fn generations(pair: &mut Pair) -> (u64, u64) {
    (pair.client().stats().key_updates, pair.server().stats().key_updates)
}

#[test]
fn either_end_may_update_its_keys() {
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        pair.end(side).update_keys();
        let data = pattern(50_000);
        assert!(pair.transfer(side, &data) == data);
        assert_eq!(generations(&mut pair), (1, 1), "{side:?}");
        assert!(pair.transfer(side.peer(), &data) == data);
        assert_eq!(pair.client().stats().undecryptable + pair.server().stats().undecryptable, 0);
    }
}

#[test]
fn both_ends_may_update_at_once() {
    let mut pair = Pair::new();
    pair.connect();
    pair.client().update_keys();
    pair.server().update_keys();
    let data = pattern(50_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert_eq!(generations(&mut pair), (1, 1));
}

#[test]
fn many_updates_in_a_row() {
    let mut pair = Pair::new();
    pair.connect();
    let data = pattern(5_000);
    for round in 1..=30u64 {
        let side = if round % 3 == 0 { Side::Server } else { Side::Client };
        pair.end(side).update_keys();
        // Packets of the last phase must be acknowledged, and three PTOs must pass (RFC 9001 §6.1, §6.5).
        for _ in 0..2 {
            assert!(pair.transfer(side, &data) == data);
            assert!(pair.transfer(side.peer(), &data) == data);
            pair.run_until_quiet();
        }
        assert_eq!(generations(&mut pair), (round, round));
    }
}

#[test]
fn updates_wait_for_the_last_one_to_be_confirmed() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    let data = pattern(1_000);
    pair.client().update_keys();
    assert!(pair.transfer(Side::Client, &data) == data);
    for _ in 0..5 {
        pair.client().update_keys();
        assert!(pair.transfer(Side::Client, &data) == data);
    }
    let (client, _) = generations(&mut pair);
    assert!(client <= 3, "{client} updates in a few round trips");
    pair.run_until_quiet();
    assert!(pair.transfer(Side::Server, &data) == data);
}

/// Lets an end rest, which frees its keys.
fn rest(pair: &mut Pair, side: Side) {
    pair.run_for(Duration::from_secs(2));
    let now = pair.now;
    pair.end(side).rest(now);
    assert!(!pair.end(side).has_ready_keys(), "{side:?} has had traffic");
}

#[test]
fn an_end_that_rests_makes_its_keys_again() {
    let data = pattern(20_000);
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        for updates in 0..6u64 {
            // The resting end receives first, then it sends first.
            rest(&mut pair, side);
            assert!(pair.transfer(side.peer(), &data) == data);
            rest(&mut pair, side);
            assert!(pair.transfer(side, &data) == data);
            assert_eq!(generations(&mut pair), (updates, updates), "{side:?}");
            // The update begins at an end that rests, or reaches one.
            rest(&mut pair, side);
            let first = if updates % 2 == 0 { side } else { side.peer() };
            pair.end(first).update_keys();
            assert!(pair.transfer(first, &data) == data);
        }
        assert_eq!(pair.client().stats().undecryptable + pair.server().stats().undecryptable, 0);
    }
}

#[test]
fn a_packet_of_the_last_key_phase_reaches_an_end_that_has_rested() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let early = pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
    pair.client().update_keys();
    let data = pattern(1_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    let log = pair.log(Side::Server);
    let now = pair.now;
    pair.server().rest_keys(now);
    pair.send_raw(Side::Client, early);
    pair.run_for(pair.delay * 2);
    assert!(log.received().iter().any(|packet| packet.has(|frame| *frame == Frame::Ping)));
    assert_eq!(pair.server().stats().undecryptable, 0);
}

#[test]
fn an_end_that_rests_says_that_it_closes() {
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        rest(&mut pair, side);
        let now = pair.now;
        pair.end(side).close(now, VarInt::from_u32(7), Bytes::new());
        pair.run_for(Duration::from_secs(1));
        let closed = pair.closed(side.peer());
        let code = match closed {
            Some(ConnectionError::PeerApplication { code, .. }) => *code,
            other => panic!("{side:?}: {other:?}"),
        };
        assert_eq!(code, VarInt::from_u32(7));
    }
}

#[test]
fn updates_under_load_with_reordering_and_loss() {
    let mut pair = Pair::with_transport(|config| config.key_update_after = Some(100));
    let mut count = 0u64;
    pair.network = Some(Box::new(move |_, mut flying| {
        count += 1;
        match count % 50 {
            7 => return Vec::new(),
            13 | 31 => flying.at += Duration::from_millis(4),
            _ => {}
        }
        vec![flying]
    }));
    pair.connect();
    let data = pattern(4_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    let (client, server) = generations(&mut pair);
    assert!(client >= 5 && client.abs_diff(server) <= 1, "{client} {server}");
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}

#[test]
fn row_22_the_confidentiality_limit_makes_the_keys_change_before_it_is_reached() {
    let mut pair = Pair::new();
    pair.connect();
    // An update starts well before the limit.
    pair.server().limit_keys(1_500, u64::MAX, 500);
    let data = pattern(3_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert_eq!(pair.closed(Side::Server), None);
    assert!(pair.server().stats().key_updates >= 1);
}

#[test]
fn row_22_at_the_confidentiality_limit_the_connection_ends() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    // The client's acknowledgments are lost, so the server may initiate no further key update.
    pair.server().limit_keys(20, u64::MAX, 1);
    let now = pair.now;
    let id = pair.server().streams().open(Dir::Uni).unwrap();
    let mut data = Bytes::from(pattern(200_000));
    pair.server().update_keys();
    pair.network = Some(Box::new(|from, flying| if from.is_client() { Vec::new() } else { vec![flying] }));
    let _ = pair.server().streams().write_bytes(id, &mut data);
    pair.run_for(Duration::from_secs(20));
    let Some(ConnectionError::Transport(error)) = pair.closed(Side::Server) else {
        panic!("{:?} since {now:?}", pair.closed(Side::Server));
    };
    assert_eq!(error.code, Code::AEAD_LIMIT_REACHED);
}

#[test]
fn row_22_at_the_integrity_limit_the_connection_ends() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        pair.run_until_quiet();
        pair.end(victim).limit_keys(u64::MAX, 50, 0);
        let attacker = victim.peer();
        for round in 0..50 {
            assert_eq!(pair.closed(victim), None, "{round} forgeries are fine");
            let now = pair.now;
            let mut bytes = pair.end(attacker).forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
            *bytes.last_mut().unwrap() ^= 0x80;
            pair.send_raw(attacker, bytes);
            pair.run_until_quiet();
        }
        let Some(ConnectionError::Transport(error)) = pair.closed(victim) else { panic!("the end") };
        assert_eq!(error.code, Code::AEAD_LIMIT_REACHED);
    }
}

#[test]
fn row_22_reserved_bits_count_only_in_packets_that_are_authentic() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        pair.run_until_quiet();
        let now = pair.now;
        let bytes = pair.end(victim.peer()).forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
        for bit in [0x08, 0x10, 0x18] {
            let mut changed = bytes.clone();
            changed[0] ^= bit;
            pair.send_raw(victim.peer(), changed);
        }
        pair.run_until_quiet();
        assert_eq!(pair.closed(victim), None, "the bits are under the tag's protection");
        assert_eq!(pair.end(victim).stats().undecryptable, 3);
    }
}

#[test]
fn every_flipped_bit_of_a_packet_is_noticed() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let secret = [Frame::MaxData(1 << 30), Frame::Ping, Frame::Padding(8)];
    let bytes = pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &encode(&secret)));
    let before = pair.server().stats().paths[0].recovery.sent_packets;
    for bit in 0..bytes.len() * 8 {
        // The fixed bit is greased, so nothing depends on it. It is authenticated nevertheless.
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        pair.send_raw(Side::Client, changed);
    }
    // This time is longer than an acknowledgment takes, but shorter than the client's PTO.
    let patience = Duration::from_millis(40);
    pair.run_for(patience);
    assert_eq!(pair.closed(Side::Server), None);
    assert_eq!(pair.server().stats().paths[0].recovery.sent_packets, before, "nothing is acknowledged");
    pair.send_raw(Side::Client, bytes);
    pair.run_for(patience);
    assert!(pair.server().stats().paths[0].recovery.sent_packets > before, "the genuine packet is");
}

#[test]
fn after_the_integrity_limit_nothing_is_opened_or_sent() {
    for victim in [Side::Client, Side::Server] {
        for limit in [3, 300] {
            let mut pair = Pair::new();
            pair.connect();
            pair.run_until_quiet();
            pair.end(victim).limit_keys(u64::MAX, limit, 0);
            let sent = Rc::new(Cell::new(0));
            let counted = Rc::clone(&sent);
            pair.network = Some(Box::new(move |from, flying| {
                counted.set(counted.get() + u32::from(from == victim));
                if from == victim { Vec::new() } else { vec![flying] }
            }));
            let now = pair.now;
            let genuine = pair.end(victim.peer()).forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
            let mut forgery = genuine.clone();
            *forgery.last_mut().unwrap() ^= 0x80;
            for _ in 0..3 {
                pair.send_raw(victim.peer(), forgery.clone());
            }
            pair.run_for(pair.delay * 2);
            assert_eq!(pair.closed(victim).is_some(), limit == 3);
            let now = pair.now;
            pair.end(victim).close(now, VarInt::from_u32(0), Bytes::new());
            pair.drain();
            let (before, opened) = (sent.get(), pair.end(victim).stats().undecryptable);
            assert_eq!((before, opened), (1, 3), "one CONNECTION_CLOSE");
            for _ in 0..20 {
                pair.send_raw(victim.peer(), genuine.clone());
                pair.send_raw(victim.peer(), forgery.clone());
            }
            pair.run_for(pair.delay);
            let (after, opened) = (sent.get(), pair.end(victim).stats().undecryptable);
            // A connection that was closed for another reason opens packets, and repeats itself.
            assert_eq!(opened, if limit == 3 { 3 } else { 23 }, "{victim:?}");
            assert_eq!(after > before, limit == 300, "{victim:?}");
        }
    }
}

#[test]
fn old_keys_behind_new_ones_open_nothing() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let late = pair.client().forge(now, &Forged { skip: 100, ..Forged::new(PacketKind::OneRtt, &ping()) });
    let early = pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
    pair.client().update_keys();
    let data = pattern(1_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert_eq!(pair.server().stats().key_updates, 1);
    // A number from before the update opens with the previous keys, which are kept for a while.
    let log = pair.log(Side::Server);
    pair.send_raw(Side::Client, early);
    pair.run_for(pair.delay * 2);
    assert!(log.received().iter().any(|packet| packet.has(|frame| *frame == Frame::Ping)));
    assert_eq!(pair.server().stats().undecryptable, 0);
    pair.send_raw(Side::Client, late);
    pair.run_until_quiet();
    let stats = pair.server().stats();
    assert_eq!((stats.undecryptable, stats.key_updates), (1, 1));
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}

#[test]
fn an_update_is_answered_with_the_new_keys() {
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new();
        pair.connect();
        pair.run_until_quiet();
        let log = pair.log(side.peer());
        pair.end(side).update_keys();
        let data = pattern(50_000);
        assert!(pair.transfer(side, &data) == data);
        let new = log.position(0, |entry| matches!(entry, Entry::Received(packet) if packet.key_phase));
        let answers = log.entries()[new.unwrap()..]
            .iter()
            .filter_map(|entry| if let Entry::Sent(packet) = entry { Some(packet.key_phase) } else { None })
            .collect::<Vec<_>>();
        assert!(answers.len() > 5 && answers.iter().all(|new| *new), "{answers:?}");
    }
}

#[test]
fn no_update_before_the_handshake_is_confirmed() {
    let mut pair = Pair::with(|client, _| Arc::make_mut(&mut client.transport).key_update_after = Some(1));
    let log = pair.log(Side::Client);
    let mut done_at = None;
    pair.network = Some(Box::new(move |from, flying| {
        // The server's first datagrams after its flight have HANDSHAKE_DONE, tickets and connection IDs.
        let is_done = from.is_server()
            && kinds(&flying.bytes)[0] == PacketKind::OneRtt
            && flying.at == *done_at.get_or_insert(flying.at);
        if is_done { Vec::new() } else { vec![flying] }
    }));
    pair.run_until(Duration::from_secs(1), |pair| {
        pair.client_events.iter().any(|event| matches!(event, Event::Connected { .. }))
    });
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    let mut tempted = 0;
    pair.run_until(Duration::from_secs(5), |pair| {
        let confirmed = pair.client_events.contains(&Event::Confirmed);
        let is_acked = log.position(0, |entry| matches!(entry, Entry::Acked(SpaceId::Data))).is_some();
        tempted += usize::from(is_acked && !confirmed);
        assert!(confirmed || pair.client().stats().key_updates == 0);
        let _ = pair.client().streams().write(id, &[7; 100]);
        confirmed
    });
    assert!(tempted > 1, "an acknowledgment would have permitted an update");
    pair.run_until_quiet();
    assert!(pair.client().stats().key_updates > 0);
}

#[test]
fn a_changed_copy_counts_as_undecryptable_and_not_as_a_duplicate() {
    for kind in [PacketKind::Handshake, PacketKind::OneRtt] {
        for from in [Side::Client, Side::Server] {
            let mut pair = Pair::new();
            pair.advance_to(kind, from);
            let log = pair.log(from.peer());
            let now = pair.now;
            let packet = pair.end(from).forge(now, &Forged::new(kind, &ping()));
            let mut changed = packet.clone();
            *changed.last_mut().unwrap() ^= 1;
            pair.send_raw(from, packet.clone());
            pair.send_raw(from, changed);
            pair.send_raw(from, packet);
            pair.run_for(pair.delay);
            let reasons = [DropReason::Undecryptable, DropReason::Duplicate];
            assert_eq!(
                log.dropped(),
                reasons.map(|reason| (Some(kind), reason)),
                "{kind:?} from the {from:?}"
            );
            assert_eq!(pair.end(from.peer()).stats().undecryptable, 1);
        }
    }
}
