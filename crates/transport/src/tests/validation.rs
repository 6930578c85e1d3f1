//! Validation of addresses, challenge by challenge (RFC 9000 §8.2, §9.3).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{Frame, PacketKind, PathId, Side, VarInt};
use bytes::Bytes;

use super::injector::{encode, ping};
use super::migration::{begin_transfer, connected, elsewhere, finish_transfer, server_remote};
use super::multipath::second_addr;
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::paths::{SIDES, address, address_of_client, open_and_wait};
use super::sent::watch_sent;
use crate::connection::Forged;
use crate::path::MAX_VALIDATIONS;
use crate::{Event, FourTuple, MultipathConfig, PathState};

const MS: Duration = Duration::from_millis(1);

/// Makes the client send a PING that seems to come from `seen_as`. If `skip` is not zero, this is the newest
/// packet for as many more, and the client does not repeat the PING.
fn forge_move(pair: &mut Pair, seen_as: SocketAddr, skip: u64) {
    let now = pair.now;
    let payload = ping();
    let forged = Forged { skip, ..Forged::new(PacketKind::OneRtt, &payload) };
    let bytes = pair.client().forge(now, &forged);
    let truly = std::mem::replace(&mut pair.client_seen_as, seen_as);
    pair.send_raw(Side::Client, bytes);
    pair.client_seen_as = truly;
}

#[test]
fn no_challenge_is_like_another() {
    let mut pair = connected();
    let now = pair.now;
    let sent = SIDES.map(|side| watch_sent(pair.end(side), now));
    let nowhere = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 2), 40_000));
    pair.network = Some(Box::new(move |_, flying| {
        let lost = flying.tuple.remote == nowhere || flying.tuple.local == nowhere;
        if lost { Vec::new() } else { vec![flying] }
    }));
    for round in 0..20u16 {
        let now = pair.now;
        let local = if round == 9 { nowhere } else { (Ipv4Addr::new(127, 0, 1, 1), 40_000 + round).into() };
        pair.client().migrate(now, local).unwrap();
        pair.run_for(Duration::from_secs(4));
        assert_eq!(server_remote(&mut pair) == local, round != 9);
    }
    let challenges: Vec<_> = sent.iter().flat_map(|one| one.challenges()).collect();
    assert!(challenges.len() > 40, "{}", challenges.len());
    assert_eq!(challenges.iter().collect::<BTreeSet<_>>().len(), challenges.len());
}

/// A PING from another address permits three times its size, so the first challenge is short.
#[test]
fn what_was_validated_by_a_short_challenge_is_validated_again() {
    let mut pair = connected();
    let now = pair.now;
    let sent = watch_sent(pair.server(), now);
    pair.client_seen_as = elsewhere();
    pair.client().ping(PathId::ZERO);
    pair.run_for(MS * 200);
    assert!(pair.server().paths().next().unwrap().validated);
    let asked = |at: SocketAddr, pair: &Pair| pair.sent_to.get(&at).copied().unwrap_or(0);
    assert!(asked(elsewhere(), &pair) >= 1_200);
    let sizes: Vec<_> =
        sent.packets().iter().filter(|one| !one.challenges.is_empty()).map(|one| one.size).collect();
    // One challenge goes to the previous address.
    let (full, short): (Vec<_>, Vec<_>) = sizes.into_iter().partition(|size| *size == 1_200);
    assert_eq!((full.len(), short.len()), (2, 1), "{full:?}, {short:?}");
    assert_eq!(pair.server().held().validations, 0, "and the client has responded");
}

#[test]
fn responses_are_of_full_size() {
    let challenge = encode(&[Frame::PathChallenge([7; 8]), Frame::Padding(1_100)]);
    for victim in SIDES {
        for from_elsewhere in [false, true] {
            if from_elsewhere && victim.is_client() {
                continue; // A client receives nothing from unknown addresses.
            }
            let mut pair = connected();
            let now = pair.now;
            let sent = watch_sent(pair.end(victim), now);
            pair.inject(victim.peer(), &Forged::new(PacketKind::OneRtt, &challenge));
            let to = if from_elsewhere { elsewhere() } else { client_addr() };
            if !victim.is_client() {
                pair.to_server.back_mut().unwrap().tuple.remote = to;
            }
            let before = pair.sent_to.get(&to).copied().unwrap_or(0);
            pair.run_for(MS * 15);
            let answers: Vec<_> = sent
                .packets()
                .into_iter()
                .filter(|one| one.responses == [[7; 8]])
                .map(|one| one.size)
                .collect();
            assert_eq!(answers, [1_200], "{victim:?}, from elsewhere: {from_elsewhere}");
            if !victim.is_client() {
                assert!(pair.sent_to[&to] >= before + 1_200);
            }
        }
    }
}

#[test]
fn a_lost_response_is_not_repeated() {
    for victim in SIDES {
        let mut pair = connected();
        let lost = Rc::new(Cell::new(0));
        let losing = Rc::clone(&lost);
        let until = pair.now + Duration::from_secs(1);
        pair.network = Some(Box::new(move |from, flying| {
            if from == victim && flying.at < until {
                losing.set(losing.get() + 1);
                return Vec::new();
            }
            vec![flying]
        }));
        let now = pair.now;
        let sent = watch_sent(pair.end(victim), now);
        pair.inject_frames(victim.peer(), &[Frame::PathChallenge([7; 8])]);
        pair.run_for(Duration::from_secs(10));
        assert!(lost.get() > 0);
        assert_eq!(sent.responses(), [[7; 8]], "{victim:?}");
    }
}

/// A client behind a NAT may move although the server has sent disable_active_migration.
#[test]
fn a_client_that_must_not_move_is_followed() {
    let mut pair = Pair::with(|_, server| Arc::make_mut(&mut server.transport).migration = false);
    pair.connect();
    let data = pattern(300_000);
    let id = begin_transfer(&mut pair, Side::Client, &data);
    pair.run_for(MS * 35);
    pair.client_seen_as = elsewhere();
    assert!(finish_transfer(&mut pair, Side::Server, id) == data);
    pair.run_until_quiet();
    assert_eq!(server_remote(&mut pair), elsewhere());
    assert!(pair.server().paths().next().unwrap().validated);
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}

/// An attacker has forged a move of a client that is silent. The server asks at the address that the client
/// seems to have left, and the response shows that the client is still there.
#[test]
fn the_address_that_was_left_is_asked() {
    let mut pair = connected();
    let now = pair.now;
    let sent = watch_sent(pair.server(), now);
    let before = pair.sent_to[&client_addr()];
    forge_move(&mut pair, elsewhere(), 0);
    pair.run_for(MS * 11);
    assert_eq!(server_remote(&mut pair), elsewhere());
    assert_eq!(pair.sent_to[&client_addr()] - before, 1_200, "a full challenge to the previous address");
    assert_eq!(sent.challenges().len(), 2);
    pair.run_for(MS * 21);
    assert_eq!(server_remote(&mut pair), client_addr());
    assert!(pair.server().paths().next().unwrap().validated);
}

/// RFC 9000 §9.3.2: the last validated address counts, not the last one. A server therefore always has an
/// address to which the path can return.
#[test]
fn a_path_that_moves_twice_returns_to_its_validated_address() {
    for moves in 1..4 {
        let mut pair = connected();
        // The client's responses at its true address are lost.
        pair.network =
            Some(Box::new(|from, flying| if from.is_client() { Vec::new() } else { vec![flying] }));
        for last in 0..moves {
            forge_move(&mut pair, address(60 + last), 0);
            pair.run_for(MS * 15);
            assert_eq!(server_remote(&mut pair), address(60 + last));
        }
        pair.run_for(Duration::from_secs(5));
        assert_eq!(server_remote(&mut pair), client_addr());
        assert!(pair.server().paths().next().unwrap().validated);
        pair.network = None;
        let data = pattern(20_000);
        assert!(pair.transfer(Side::Server, &data) == data);
        assert_eq!(pair.closed(Side::Server), None);
    }
}

/// The probes of a failing path take the place of a migration, whose connection ID is then retired.
#[test]
fn a_failing_path_keeps_no_connection_id_of_a_migration() {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = Some(MultipathConfig::default());
        transport.active_connection_id_limit = 8;
    });
    pair.connect();
    pair.run_until_quiet();
    open_and_wait(&mut pair, second_addr());
    pair.run_until_quiet();
    let unused = pair.client().held().unused_cids;
    assert!(unused > MAX_VALIDATIONS, "{unused}");
    pair.network = Some(Box::new(|from, flying| {
        if address_of_client(from, &flying) == second_addr() { vec![flying] } else { Vec::new() }
    }));
    pair.client().ping(PathId::ZERO);
    pair.drain();
    for last in 0..MAX_VALIDATIONS {
        let now = pair.now;
        pair.client().migrate(now, address(70 + last as u8)).unwrap();
    }
    pair.run_for(MS * 500);
    let state = |pair: &mut Pair| pair.client().paths().next().unwrap().state;
    assert_eq!(state(&mut pair), PathState::Failing);
    assert_eq!(pair.client().held().validations, MAX_VALIDATIONS);
    pair.run_for(Duration::from_secs(5));
    pair.network = None;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(state(&mut pair), PathState::Open);
    assert_eq!(pair.client().paths().next().unwrap().tuple.local, client_addr());
    assert_eq!(pair.client().held().unused_cids, unused);
    let moved = |event: &Event| matches!(event, Event::PathChanged { .. });
    assert!(!pair.client_events.iter().any(moved));
}

/// Strangers may send copies of genuine packets to an endpoint that closes.
#[test]
fn a_closing_end_is_silent_towards_strangers() {
    for moved in [false, true] {
        let mut pair = connected();
        let stranger = address(66);
        let mut received = 0;
        if moved {
            forge_move(&mut pair, stranger, 1_000);
            received += pair.to_server.back().unwrap().bytes.len() as u64;
            pair.run_for(MS * 12);
            assert_eq!(server_remote(&mut pair), stranger);
        }
        let now = pair.now;
        pair.server().close(now, VarInt::from_u32(7), Bytes::from(vec![b'x'; 100]));
        pair.drain();
        pair.to_client.clear();
        for copy in 1..=20u64 {
            forge_move(&mut pair, stranger, 2_000 * copy);
            received += pair.to_server.back().unwrap().bytes.len() as u64;
            pair.run_for(MS);
        }
        pair.run_for(MS * 15);
        let sent = pair.sent_to.get(&stranger).copied().unwrap_or(0);
        assert!(if moved { sent <= 3 * received } else { sent == 0 }, "{sent} bytes for {received}");
        assert_eq!(sent > 0, moved);
    }
}

/// On a slow network, challenges to other addresses for a silent path are no more frequent than probes.
#[test]
fn a_rescue_waits_for_a_probe_timeout() {
    let mut pair = Pair::new();
    pair.delay = MS * 1_600;
    pair.connect();
    pair.run_for(Duration::from_secs(4));
    let pto = pair.client().paths().next().unwrap().pto;
    assert!(pto > MS * 3_200, "{pto:?}");
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    pair.network = Some(Box::new(move |from, flying| {
        count.set(count.get() + u32::from(address_of_client(from, &flying) == elsewhere()));
        Vec::new()
    }));
    let now = pair.now;
    pair.client().rescue(now, FourTuple { local: elsewhere(), remote: server_addr() }).unwrap();
    pair.run_for(MS * 3_000);
    assert_eq!(asked.get(), 1);
    pair.run_for(pto * 3);
    assert!((3..=4).contains(&asked.get()), "{}", asked.get());
}
