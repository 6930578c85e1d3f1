//! Rules of RFC 10069, and attacks on several paths that take more than one invalid frame.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anabranch_tls::nonce;
use anabranch_wire::{
    ConnectionId, PacketKind, PathId, Side, TransportErrorCode as Code, VarInt, Writer, write_ack,
};

use super::multipath::{multipath, numbered, second_addr, two_paths, two_paths_numbered};
use super::pair::{Pair, client_addr, direction, pattern, server_addr};
use super::paths::{NUMBERINGS, SECOND, SIDES, address_of_client, begin_upload, still_works};
use crate::config::AckConfig;
use crate::connection::Forged;
use crate::random::Random;
use crate::space;
use crate::{ConnectionError, Event, FourTuple, MultipathConfig, Numbering};

fn ack(path: Option<u32>, largest: u64, delay: u64) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, path.map(PathId), [largest..=largest].into_iter(), delay, None).unwrap();
    writer.written().to_vec()
}

#[test]
fn a_plain_ack_means_path_0() {
    for from in SIDES {
        let mut pair = two_paths();
        pair.inject(from, &Forged::new(PacketKind::OneRtt, &ack(None, 0, 0)));
        still_works(&mut pair);
        // Path 0 has sent more packets than path 1 will have sent.
        let largest = pair.end(from.peer()).held().next_number - 1;
        pair.inject(from, &Forged::new(PacketKind::OneRtt, &ack(Some(1), largest + 500, 0)));
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(from), Some(Code::PROTOCOL_VIOLATION));
    }
}

#[test]
fn a_path_that_does_not_carry_1200_bytes_is_not_opened() {
    let mut pair = multipath();
    pair.network = Some(Box::new(|from, flying| {
        let narrow = address_of_client(from, &flying) == second_addr() && flying.bytes.len() >= 1200;
        if narrow { Vec::new() } else { vec![flying] }
    }));
    let now = pair.now;
    pair.client().open_path(now, FourTuple { local: second_addr(), remote: server_addr() }).unwrap();
    pair.run_for(Duration::from_secs(10));
    assert!(!pair.client_events.contains(&Event::PathOpened(PathId(1))));
    assert!(
        pair.client_events
            .contains(&Event::PathAbandoned { path: PathId(1), code: VarInt::from_u32(0x3e76) })
    );
    still_works(&mut pair);
}

#[test]
fn row_m4_no_nonce_occurs_twice_in_ten_million_packets() {
    let mut numbering = space::Numbering::per_path();
    let mut random = Random::new([4; 32]);
    // Paths are added and removed. Each has its own numbers, and the nonce contains the path. A nonce could
    // repeat only if a path's packet numbers did not increase, or if the nonce did not contain the whole path
    // ID and number.
    let mut newest: Vec<Option<u64>> = vec![None; 64];
    let mut first = 0;
    for packet in 0..10_000_000_u64 {
        if packet % 100_000 == 99_999 {
            numbering.forget(PathId(first as u32));
            first += 1;
            newest.push(None);
        }
        let path = first + random.below(8) as usize;
        if newest.len() <= path {
            newest.resize(path + 1, None);
        }
        let id = PathId(path as u32);
        let number = numbering.next(id, &mut random, Some(100)).number;
        numbering.commit(id, false);
        assert!(newest[path].is_none_or(|before| before < number), "{id} {number}");
        newest[path] = Some(number);
        let nonce = nonce(&[0; 12], numbering.nonce_path(id), number);
        let [high, low] = [&id.0.to_be_bytes()[..], &number.to_be_bytes()[..]];
        assert!(nonce[..4] == *high && nonce[4..] == *low, "{nonce:?}");
    }
}

#[test]
fn row_m4_no_nonce_occurs_twice_in_ten_million_packets_of_one_space() {
    let mut numbering = space::Numbering::per_path();
    numbering.share(&AckConfig::default(), 0);
    let mut random = Random::new([4; 32]);
    // The nonce does not contain the path, so that the numbers of all paths together must increase.
    let (mut newest, mut first) = (None, 0);
    for packet in 0..10_000_000_u64 {
        if packet % 100_000 == 99_999 {
            numbering.forget(PathId(first));
            first += 1;
        }
        let id = PathId(first + random.below(8) as u32);
        let number = numbering.next(id, &mut random, Some(100)).number;
        numbering.commit(id, false);
        assert!(newest.is_none_or(|before| before < number), "{id} {number}");
        newest = Some(number);
        let nonce = nonce(&[0; 12], numbering.nonce_path(id), number);
        assert!(nonce[..4] == [0; 4] && nonce[4..] == number.to_be_bytes(), "{nonce:?}");
    }
}

#[test]
fn row_m7_eight_paths_rebound_at_once() {
    for numbering in NUMBERINGS {
        let pair = eight_paths(numbering);
        rebind_all(pair);
    }
}

/// Returns a pair with eight paths, and the client's addresses.
fn eight_paths(numbering: Numbering) -> (Pair, Vec<SocketAddr>) {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath =
            Some(MultipathConfig { max_paths: 8, numbering: numbering.into(), ..MultipathConfig::default() });
        // In a single space, the limit is that of all paths together.
        transport.active_connection_id_limit = 8;
    });
    pair.connect();
    pair.run_until_quiet();
    let locals: Vec<SocketAddr> = (10..17).map(|last| ([127, 0, 0, last], 50_000).into()).collect();
    for local in &locals {
        let now = pair.now;
        pair.client().open_path(now, FourTuple { local: *local, remote: server_addr() }).unwrap();
        pair.run_until_quiet();
    }
    assert_eq!(pair.server().paths().count(), 8, "{numbering:?}");
    (pair, locals.into_iter().chain([client_addr()]).collect())
}

fn rebind_all((mut pair, all): (Pair, Vec<SocketAddr>)) {
    let rebound = |address: SocketAddr| SocketAddr::new(address.ip(), address.port() + 1_000);
    pair.client_locals.extend(all.iter().copied().map(rebound));
    pair.network = Some(Box::new(move |from, mut flying| {
        match from {
            Side::Client => flying.tuple.remote = rebound(flying.tuple.remote),
            // Packets to an old mapping are lost.
            Side::Server => match all.iter().find(|address| rebound(**address) == flying.tuple.local) {
                Some(address) => flying.tuple.local = *address,
                None => return Vec::new(),
            },
        }
        vec![flying]
    }));
    for _ in 0..3 {
        still_works(&mut pair);
        for path in 0..8 {
            pair.client().ping(PathId(path));
        }
        pair.run_for(SECOND);
    }
    for path in pair.server().paths().collect::<Vec<_>>() {
        assert!(path.validated && path.tuple.remote.port() == 51_000, "{path:?}");
    }
}

/// In a single space, connection IDs belong to no path before they are used. No two paths use the same, so that
/// an observer cannot link them.
#[test]
fn row_m7_paths_of_one_space_share_no_connection_id() {
    let mut pair = two_paths_numbered(Numbering::Single);
    let rebound = SocketAddr::new(second_addr().ip(), 61_000);
    pair.client_locals.push(rebound);
    let seen = Rc::new(RefCell::new(BTreeMap::<SocketAddr, BTreeSet<ConnectionId>>::new()));
    let into = Rc::clone(&seen);
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_client() && flying.tuple.remote == second_addr() {
            flying.tuple.remote = rebound;
        } else if !from.is_client() {
            let cid = ConnectionId::new(&flying.bytes[1..9]).unwrap();
            into.borrow_mut().entry(flying.tuple.local).or_default().insert(cid);
            if flying.tuple.local == rebound {
                flying.tuple.local = second_addr();
            }
        }
        vec![flying]
    }));
    for round in 0..4 {
        let data = pattern(500_000);
        for side in SIDES {
            assert!(pair.transfer(side, &data) == data);
        }
        pair.end(SIDES[round % 2]).rotate_cids();
        pair.run_until_quiet();
    }
    let paths: Vec<_> =
        pair.server().paths().map(|path| (path.id.0, path.tuple.remote, path.validated)).collect();
    assert_eq!(paths, [(0, client_addr(), true), (1, rebound, true)]);
    let seen = seen.borrow();
    let [first, second] = [&seen[&client_addr()], &seen[&rebound]];
    assert!(first.len() > 1 && second.len() > 1 && first.is_disjoint(second), "{first:?} {second:?}");
}

/// State of an endpoint's path 1, or of both paths, before or during abandonment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unopened,
    Opening,
    Open,
    Silent,
    Abandoned,
}

#[test]
fn row_m8_path_abandon_in_every_pair_of_states() {
    use State::{Abandoned, Open, Opening, Silent, Unopened};
    for state in [Unopened, Opening, Open, Silent, Abandoned] {
        for (from, lost, times) in
            SIDES.into_iter().flat_map(|side| [(side, 0_u32, 1), (side, 0, 3), (side, 4, 1)])
        {
            for numbering in NUMBERINGS {
                abandon_in(state, numbering, from, lost, times);
            }
        }
    }
}

/// Abandons path 1 with `times` forged frames from `from`, while its peer is in `state` and the network loses
/// the first `lost` datagrams.
fn abandon_in(state: State, numbering: Numbering, from: Side, lost: u32, times: u32) {
    let is_open = !matches!(state, State::Unopened | State::Opening);
    let mut pair = if is_open { two_paths_numbered(numbering) } else { numbered(numbering) };
    let (now, left) = (pair.now, Rc::new(Cell::new(lost)));
    let (losing, silent) = (Rc::clone(&left), matches!(state, State::Opening | State::Silent));
    pair.network = Some(Box::new(move |side, flying| {
        let dead = silent && address_of_client(side, &flying) == second_addr();
        let unlucky = losing.get() > 0;
        losing.set(losing.get().saturating_sub(1));
        if dead || unlucky { Vec::new() } else { vec![flying] }
    }));
    if state == State::Opening {
        let tuple = FourTuple { local: second_addr(), remote: server_addr() };
        pair.client().open_path(now, tuple).unwrap();
    }
    if state == State::Abandoned {
        pair.end(from.peer()).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
    }
    let frame = anabranch_wire::Frame::PathAbandon { path: PathId(1), code: VarInt::from_u32(0x3e) };
    for _ in 0..times {
        pair.inject_frames(from, &[frame]);
    }
    pair.run_for(Duration::from_secs(20));
    let what = format!("{state:?}, {numbering:?}, {from:?}, {lost} lost, {times} times");
    if (state, numbering) == (State::Unopened, Numbering::Single) {
        // Only clients begin paths there, so that this client objects to the server's frame or answer.
        let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else { panic!("{what}") };
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION, "{what}");
        return;
    }
    for side in SIDES {
        assert_eq!(pair.closed(side), None, "{what}");
        let ids: Vec<_> = pair.end(side).paths().map(|path| path.id.0).collect();
        assert!(ids.contains(&0) && (ids.len() == 1 || lost > 0), "{what}: {ids:?}");
        assert!(pair.end(side).held().abandons <= 1, "{what}");
    }
    still_works(&mut pair);
}

#[test]
fn row_m10_an_update_waits_for_three_times_the_pto_of_the_slowest_path() {
    // In a single space, acknowledgments of the slow path's packets may return on the fast one.
    for (numbering, round_trip) in [(Numbering::Multiple, 2), (Numbering::Single, 1)] {
        update_on_a_slow_path(numbering, round_trip * SECOND);
    }
}

/// Updates keys as often as possible while the client's second path has this round-trip time.
fn update_on_a_slow_path(numbering: Numbering, round_trip: Duration) {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath =
            Some(MultipathConfig { numbering: numbering.into(), ..MultipathConfig::default() });
        transport.ack.path = crate::AckPath::Same;
    });
    pair.delay = Duration::from_micros(2_500);
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|from, mut flying| {
        if address_of_client(from, &flying) == second_addr() {
            flying.at += Duration::from_millis(997);
        }
        vec![flying]
    }));
    let now = pair.now;
    pair.client().open_path(now, FourTuple { local: second_addr(), remote: server_addr() }).unwrap();
    pair.run_for(Duration::from_secs(10));
    let mut times = Vec::new();
    for _ in 0..400 {
        let before = pair.client().stats().key_updates;
        pair.client().update_keys();
        for path in 0..2 {
            pair.client().ping(PathId(path));
        }
        pair.run_for(Duration::from_millis(100));
        if pair.client().stats().key_updates > before {
            times.push(pair.now);
        }
    }
    assert!(times.len() >= 3, "{times:?}");
    for two in times.windows(2) {
        assert!(two[1] - two[0] >= 3 * round_trip, "{numbering:?}: {times:?}");
    }
    let lost = pair.client().stats().undecryptable + pair.server().stats().undecryptable;
    assert_eq!(lost, 0, "packets of the slow path, {numbering:?}");
    still_works(&mut pair);
}

#[test]
fn row_m11_all_links_down_for_a_while() {
    for (side, numbering) in SIDES.into_iter().flat_map(|side| NUMBERINGS.map(|one| (side, one))) {
        let mut pair = two_paths_numbered(numbering);
        let id = begin_upload(&mut pair, side);
        let down = Rc::new(Cell::new(true));
        let is_down = Rc::clone(&down);
        pair.network = Some(Box::new(move |_, flying| if is_down.get() { Vec::new() } else { vec![flying] }));
        pair.run_for(Duration::from_secs(12));
        down.set(false);
        let mut received = Vec::new();
        pair.run_until(Duration::from_secs(30), |pair| pair.read(side.peer(), id, &mut received));
        assert!(received == pattern(100_000));
        still_works(&mut pair);
    }
}

#[test]
fn row_m11_connection_ids_retired_while_they_are_used_to_probe() {
    for numbering in NUMBERINGS {
        let mut pair = two_paths_numbered(numbering);
        let elsewhere: SocketAddr = ([127, 0, 0, 9], 50_000).into();
        let now = pair.now;
        pair.client().migrate(now, elsewhere).unwrap();
        pair.drain();
        pair.server().rotate_cids();
        pair.run_for(Duration::from_secs(5));
        still_works(&mut pair);
        let now = pair.now;
        pair.client().open_path(now, FourTuple { local: elsewhere, remote: server_addr() }).unwrap();
        pair.drain();
        pair.server().rotate_cids();
        pair.run_for(Duration::from_secs(5));
        still_works(&mut pair);
    }
}

#[test]
fn row_m11_the_first_path_removed_while_it_carries_everything() {
    for (side, numbering) in SIDES.into_iter().flat_map(|side| NUMBERINGS.map(|one| (side, one))) {
        let mut pair = two_paths_numbered(numbering);
        let id = begin_upload(&mut pair, side);
        let now = pair.now;
        pair.end(side.peer()).abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
        let mut received = Vec::new();
        pair.run_until(Duration::from_secs(5), |pair| pair.read(side.peer(), id, &mut received));
        assert!(received == pattern(100_000));
        pair.run_for(Duration::from_secs(5));
        still_works(&mut pair);
    }
}

#[test]
fn row_m13_forged_acknowledgments_on_another_path() {
    for from in SIDES {
        let mut pair = two_paths();
        still_works(&mut pair);
        let target = from.peer();
        let before: Vec<_> = pair.end(target).paths().collect();
        // Forged acknowledgments, sent on path 0, of packet 0 of path 1: late, repeated, and with a huge
        // delay.
        for _ in 0..50 {
            pair.inject(from, &Forged::new(PacketKind::OneRtt, &ack(Some(1), 0, (1 << 30) - 1)));
            pair.run_until_quiet();
        }
        assert_eq!(pair.closed(target), None);
        let after: Vec<_> = pair.end(target).paths().collect();
        assert_eq!(before[1].window, after[1].window, "a path that did not send");
        assert!(after[1].min_rtt >= Duration::from_millis(20), "twice the wire's delay");
        assert!(after[1].smoothed_rtt < Duration::from_millis(200), "{:?}", after[1].smoothed_rtt);
    }
}

#[test]
fn row_m6_validations_of_paths_that_do_not_answer_are_paced() {
    let victim: SocketAddr = ([127, 0, 0, 200], 50_000).into();
    let mut pair = multipath();
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&times);
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_client() && flying.tuple.remote != client_addr() {
            flying.tuple.remote = victim;
        }
        if from.is_client() { vec![flying] } else { Vec::from([flying]) }
    }));
    for last in 20..23 {
        let now = pair.now;
        let local = ([127, 0, 0, last], 50_000).into();
        pair.client().open_path(now, FourTuple { local, remote: server_addr() }).unwrap();
    }
    let mut sent = 0;
    for _ in 0..400 {
        pair.run_for(Duration::from_millis(50));
        let now_sent = pair.sent_to.get(&victim).copied().unwrap_or(0);
        seen.borrow_mut().push(now_sent - sent);
        sent = now_sent;
    }
    // Three paths, each with a few full-size challenges at decreasing rate.
    let bursts = times.borrow();
    assert!(sent > 0 && sent <= 3 * 8 * 1200, "{sent}");
    assert!(bursts.iter().all(|bytes| *bytes <= 3 * 3 * 1200), "{bursts:?}");
    assert!(bursts[200..].iter().all(|bytes| *bytes == 0), "{bursts:?}");
}
