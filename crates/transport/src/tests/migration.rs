//! Address changes: migration, NAT rebinding, preferred addresses, and attacks that use them (RFC 9000 §9).

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{ConnectionId, Dir, Frame, PacketKind, PathId, Side};
use bytes::Bytes;

use super::injector::{encode, ping};
use super::pair::{Flying, Pair, client_addr, pattern, server_addr};
use super::sent::watch_sent;
use crate::connection::Forged;
use crate::path::MAX_VALIDATIONS;
use crate::trace::{DropReason, Observer, TraceEvent};
use crate::{CidRotation, Event, FourTuple, MigrateError, PreferredAddresses};

pub(super) fn elsewhere() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 3), 50_001).into()
}

pub(super) fn connected() -> Pair {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_until_quiet();
    pair
}

pub(super) fn server_remote(pair: &mut Pair) -> SocketAddr {
    pair.server().paths().next().unwrap().tuple.remote
}

/// Starts a long transfer from `from`.
pub(super) fn begin_transfer(pair: &mut Pair, from: Side, data: &[u8]) -> anabranch_wire::StreamId {
    let id = pair.end(from).streams().open(Dir::Uni).unwrap();
    let mut rest = Bytes::copy_from_slice(data);
    assert_eq!(pair.end(from).streams().write_bytes(id, &mut rest), Ok(data.len()));
    pair.end(from).streams().finish(id).unwrap();
    id
}

pub(super) fn finish_transfer(pair: &mut Pair, to: Side, id: anabranch_wire::StreamId) -> Vec<u8> {
    let mut received = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| pair.read(to, id, &mut received));
    received
}

/// Connection IDs of short-header datagrams, with their sender and the client's address.
type Seen = Rc<RefCell<Vec<(Side, SocketAddr, ConnectionId)>>>;

fn watch(pair: &mut Pair) -> Seen {
    let seen = Seen::default();
    let into = Rc::clone(&seen);
    pair.network = Some(Box::new(move |from, flying| {
        if flying.bytes[0] & 0x80 == 0 {
            let cid = ConnectionId::new(&flying.bytes[1..9]).unwrap();
            let client = if from.is_client() { flying.tuple.remote } else { flying.tuple.local };
            into.borrow_mut().push((from, client, cid));
        }
        vec![flying]
    }));
    seen
}

/// Records the connection IDs of the 1-RTT packets that the observer is told of.
struct Traced(Arc<Mutex<Vec<ConnectionId>>>);

impl Observer for Traced {
    fn event(&mut self, _: anabranch_wire::Time, event: &TraceEvent<'_>) {
        if let TraceEvent::PacketSent(packet) = event
            && packet.kind == PacketKind::OneRtt
        {
            self.0.lock().unwrap().push(packet.dcid);
        }
    }
}

#[test]
fn observers_see_the_connection_ids_of_the_packets_that_validate_another_address() {
    let mut pair = connected();
    let seen = watch(&mut pair);
    let traced = Arc::<Mutex<Vec<_>>>::default();
    let now = pair.now;
    pair.server().set_observer(now, Box::new(Traced(Arc::clone(&traced))));
    let id = begin_transfer(&mut pair, Side::Client, &pattern(100_000));
    pair.run_for(Duration::from_millis(35));
    let now = pair.now;
    pair.client().migrate(now, elsewhere()).unwrap();
    finish_transfer(&mut pair, Side::Server, id);
    let carried: Vec<_> = seen.borrow().iter().filter(|one| one.0 == Side::Server).map(|one| one.2).collect();
    assert!(carried.iter().any(|cid| *cid != carried[0]), "two connection IDs were used");
    assert_eq!(*traced.lock().unwrap(), carried);
}

#[test]
fn a_client_migrates_in_the_middle_of_a_transfer() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected();
        let seen = watch(&mut pair);
        let data = pattern(900_000);
        let id = begin_transfer(&mut pair, from, &data);
        pair.run_for(Duration::from_millis(35));
        let now = pair.now;
        pair.client().migrate(now, elsewhere()).unwrap();
        assert!(finish_transfer(&mut pair, from.peer(), id) == data);
        assert_eq!(server_remote(&mut pair), elsewhere());
        assert_eq!(pair.client().paths().next().unwrap().tuple.local, elsewhere());
        assert!(pair.server().paths().next().unwrap().validated);
        for events in [&pair.client_events, &pair.server_events] {
            assert!(events.iter().any(|event| matches!(event, Event::PathChanged { .. })));
        }
        // RFC 9000 §9.5: an observer of both networks cannot link them by connection IDs.
        let seen = seen.borrow();
        for side in [Side::Client, Side::Server] {
            let cids = |addr| seen.iter().filter(move |s| s.0 == side && s.1 == addr).map(|s| s.2);
            assert!(cids(elsewhere()).count() > 3);
            assert!(cids(elsewhere()).all(|cid| cids(client_addr()).all(|other| other != cid)), "{side:?}");
        }
    }
}

#[test]
fn a_client_migrates_again_and_again() {
    let mut pair = connected();
    let data = pattern(20_000);
    for round in 0..20u16 {
        let now = pair.now;
        let local = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 1), 40_000 + round));
        pair.client().migrate(now, local).unwrap();
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_until_quiet();
        assert_eq!(server_remote(&mut pair), local);
    }
}

/// Responses to challenges from addresses that the client has left do not show its present address, even if
/// they arrive first.
#[test]
fn a_server_follows_although_the_way_that_was_left_is_faster() {
    let mut pair = connected();
    pair.network = Some(Box::new(|from, mut flying| {
        if from.is_client() && flying.tuple.remote == elsewhere() {
            flying.at += Duration::from_millis(100);
        }
        vec![flying]
    }));
    let now = pair.now;
    pair.client().migrate(now, elsewhere()).unwrap();
    pair.run_until(Duration::from_secs(2), |pair| {
        pair.client().paths().next().unwrap().tuple.local == elsewhere()
    });
    // The client's packet from its new address arrives after a response that it sends later from the old one.
    pair.client().ping(PathId::ZERO);
    pair.drain();
    let answer = encode(&[Frame::PathResponse([9; 8])]);
    let now = pair.now;
    let answer = pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &answer));
    let at = pair.now + pair.delay;
    let tuple = FourTuple { local: server_addr(), remote: client_addr() };
    pair.to_server.push_front(Flying { at, tuple, ecn: None, bytes: answer });
    pair.run_for(Duration::from_millis(150));
    assert_eq!(server_remote(&mut pair), elsewhere());
}

#[test]
fn migration_to_nowhere_leaves_everything_as_it_was() {
    let mut pair = connected();
    pair.network = Some(Box::new(|_, flying| {
        let lost = flying.tuple.remote == elsewhere() || flying.tuple.local == elsewhere();
        if lost { Vec::new() } else { vec![flying] }
    }));
    let now = pair.now;
    pair.client().migrate(now, elsewhere()).unwrap();
    let data = pattern(500_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.client().paths().next().unwrap().tuple.local, client_addr());
    assert!(!pair.client_events.iter().any(|event| matches!(event, Event::PathChanged { .. })));
}

#[test]
fn few_addresses_are_validated_at_a_time() {
    let mut pair = Pair::with_transport(|config| config.active_connection_id_limit = 8);
    pair.connect();
    pair.run_until_quiet();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    let mut begun = 0;
    for port in 0..20 {
        let now = pair.now;
        let local = SocketAddr::from((Ipv4Addr::new(127, 0, 1, 1), 40_000 + port));
        begun += usize::from(pair.client().migrate(now, local).is_ok());
        assert!(pair.client().held().validations <= MAX_VALIDATIONS);
        pair.run_for(Duration::from_millis(1));
    }
    assert!(begun > MAX_VALIDATIONS, "{begun}");
    assert_eq!(pair.client().held().validations, MAX_VALIDATIONS);
}

#[test]
fn migration_is_for_clients_that_may() {
    let mut pair = Pair::with(|_, server| Arc::make_mut(&mut server.transport).migration = false);
    let now = pair.now;
    assert_eq!(pair.client().migrate(now, elsewhere()), Err(MigrateError::NotConfirmed));
    pair.connect();
    assert_eq!(pair.client().migrate(now, elsewhere()), Err(MigrateError::Forbidden));
    assert_eq!(pair.server().migrate(now, elsewhere()), Err(MigrateError::Server));
}

#[test]
fn a_nat_gives_the_client_another_port_or_address() {
    let rebound = [(client_addr().ip(), 61_000).into(), elsewhere()];
    for (seen_as, from) in rebound.into_iter().flat_map(|addr| [(addr, Side::Client), (addr, Side::Server)]) {
        // A client that only receives may have nothing to send. Its keep-alive then shows its present
        // address.
        let mut pair = Pair::with_transport(|config| config.keep_alive = Some(Duration::from_millis(200)));
        pair.connect();
        let data = pattern(900_000);
        let id = begin_transfer(&mut pair, from, &data);
        pair.run_for(Duration::from_millis(35));
        pair.client_seen_as = seen_as;
        assert!(finish_transfer(&mut pair, from.peer(), id) == data);
        assert_eq!(server_remote(&mut pair), seen_as);
        assert!(pair.server().paths().next().unwrap().validated);
    }
}

#[test]
fn a_challenge_that_takes_the_whole_budget_carries_the_acknowledgment() {
    let mut pair = connected();
    pair.client_seen_as = elsewhere();
    let under_way = |pair: &mut Pair| pair.client().paths().next().unwrap().in_flight;
    pair.client().ping(PathId::ZERO);
    pair.drain();
    assert!(under_way(&mut pair) > 0);
    // The server receives only the client's PING, to which it may respond with three times its size.
    pair.network = Some(Box::new(|from, flying| if from.is_client() { Vec::new() } else { vec![flying] }));
    let acked = |pair: &mut Pair| pair.client().paths().next().unwrap().recovery.acked_packets;
    let before = acked(&mut pair);
    pair.run_for(Duration::from_millis(100));
    assert!(acked(&mut pair) > before);
}

#[test]
fn a_full_window_delays_a_response_no_longer_than_a_probe_timeout() {
    for victim in [Side::Client, Side::Server] {
        let mut pair = connected();
        // All packets of the victim are lost until its window is full and it can only probe.
        let lost = Rc::new(Cell::new(true));
        let losing = Rc::clone(&lost);
        pair.network = Some(Box::new(
            move |from, flying| if losing.get() && from == victim { Vec::new() } else { vec![flying] },
        ));
        begin_transfer(&mut pair, victim, &pattern(900_000));
        pair.run_for(Duration::from_secs(3));
        let challenge = encode(&[Frame::PathChallenge([7; 8])]);
        let ask = |pair: &mut Pair| {
            pair.inject(victim.peer(), &Forged::new(PacketKind::OneRtt, &challenge));
            pair.run_for(Duration::from_millis(15));
            pair.end(victim).held().path_responses
        };
        assert_eq!(ask(&mut pair), 0, "{victim:?} has probed, and answers");
        assert_eq!(
            (ask(&mut pair), ask(&mut pair)),
            (1, 2),
            "{victim:?} answers once for each probe timeout"
        );
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.end(victim).held().path_responses, 0, "{victim:?}");
        assert_eq!((ask(&mut pair), ask(&mut pair)), (0, 1), "{victim:?}");
        lost.set(false);
    }
}

#[test]
fn a_nat_rebinds_while_nobody_speaks() {
    let mut pair = connected();
    for port in 61_000..61_010 {
        pair.client_seen_as.set_port(port);
        pair.run_for(Duration::from_secs(2));
        let data = pattern(30_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        assert!(pair.transfer(Side::Server, &data) == data);
        assert_eq!(server_remote(&mut pair).port(), port);
    }
}

/// An attacker who observes the client's datagrams sends copies of them from a victim's address. The copies
/// arrive first.
#[test]
fn row_10_a_forged_move_sends_the_victim_three_times_what_it_seemed_to_send() {
    let victim: SocketAddr = (Ipv4Addr::new(127, 0, 0, 66), 53).into();
    for copies in [1, 10, 30] {
        let mut pair = connected();
        let sent = Rc::new(RefCell::new(0u64));
        let (count, mut left) = (Rc::clone(&sent), copies);
        pair.network = Some(Box::new(move |from, flying| {
            if from.is_server() || left == 0 {
                return vec![flying];
            }
            left -= 1;
            let mut forged: Flying = flying.clone();
            forged.at = flying.at - Duration::from_millis(5);
            forged.tuple.remote = victim;
            *count.borrow_mut() += forged.bytes.len() as u64;
            vec![forged, flying]
        }));
        let data = pattern(900_000);
        let id = begin_transfer(&mut pair, Side::Server, &data);
        let mut received = Vec::new();
        let deadline = pair.now + Duration::from_secs(200);
        while !pair.read(Side::Client, id, &mut received) {
            assert!(pair.now < deadline && pair.step());
            let to_victim = pair.sent_to.get(&victim).copied().unwrap_or(0);
            assert!(to_victim <= 3 * *sent.borrow(), "{to_victim} bytes for {}", sent.borrow());
        }
        assert!(received == data);
        assert!(pair.sent_to.contains_key(&victim), "the attack took place");
        pair.network = None;
        let data = pattern(10_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        assert_eq!(server_remote(&mut pair), client_addr());
    }
}

#[test]
fn a_move_to_an_address_that_does_not_answer_is_taken_back() {
    let victim: SocketAddr = (Ipv4Addr::new(127, 0, 0, 66), 53).into();
    let mut pair = connected();
    let now = pair.now;
    let bytes = pair.client().forge(now, &Forged::new(PacketKind::OneRtt, &ping()));
    pair.client_seen_as = victim;
    pair.send_raw(Side::Client, bytes);
    pair.client_seen_as = client_addr();
    pair.run_for(Duration::from_secs(5));
    assert_eq!(server_remote(&mut pair), client_addr());
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Server, &data) == data);
}

pub(super) fn preferring(address: SocketAddr) -> Pair {
    let SocketAddr::V4(v4) = address else { panic!("IPv4") };
    Pair::with(|_, server| server.preferred_address = Some(PreferredAddresses { v4: Some(v4), v6: None }))
}

#[test]
fn a_client_moves_to_the_servers_preferred_address() {
    let preferred: SocketAddr = (Ipv4Addr::new(127, 0, 0, 9), 4434).into();
    let mut pair = preferring(preferred);
    pair.connect();
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_until_quiet();
    assert_eq!(pair.client().paths().next().unwrap().tuple.remote, preferred);
    assert!(pair.transfer(Side::Server, &data) == data);
    let before = pair.sent_to[&server_addr()];
    assert!(pair.transfer(Side::Client, &data) == data);
    assert_eq!(pair.sent_to[&server_addr()], before, "nothing goes to the old address any longer");
}

#[test]
fn a_preferred_address_that_does_not_answer_is_left_alone() {
    let preferred: SocketAddr = (Ipv4Addr::new(127, 0, 0, 9), 4434).into();
    let mut pair = preferring(preferred);
    pair.network = Some(Box::new(move |_, flying| {
        let lost = flying.tuple.remote == preferred || flying.tuple.local == preferred;
        if lost { Vec::new() } else { vec![flying] }
    }));
    pair.connect();
    pair.run_for(Duration::from_secs(10));
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    assert_eq!(pair.client().paths().next().unwrap().tuple.remote, server_addr());
}

#[test]
fn row_25_a_server_cannot_make_its_clients_send_where_it_likes() {
    let canaries = [
        SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), 53)),
        SocketAddr::from((Ipv4Addr::new(224, 0, 0, 1), 4433)),
        SocketAddr::from((Ipv4Addr::BROADCAST, 4433)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 4433)),
    ];
    for canary in canaries {
        let mut pair = preferring(canary);
        pair.connect();
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_for(Duration::from_secs(3));
        assert_eq!(pair.sent_to.get(&canary), None, "{canary}");
    }
}

#[test]
fn row_25_datagrams_from_unknown_addresses_do_not_move_a_client() {
    let mut pair = connected();
    let now = pair.now;
    let sent = watch_sent(pair.client(), now);
    let payload = ping();
    let newest = Forged { skip: 1_000, ..Forged::new(PacketKind::OneRtt, &payload) };
    let bytes = pair.server().forge(now, &newest);
    pair.send_raw(Side::Server, bytes);
    pair.to_client.back_mut().unwrap().tuple.remote = elsewhere();
    pair.run_until_quiet();
    assert_eq!(sent.drops(), [DropReason::Unexpected]);
    assert!(sent.packets().iter().all(|packet| packet.acknowledges < Some(1_000)));
    assert_eq!(pair.sent_to.get(&elsewhere()), None);
    assert_eq!(pair.client().paths().next().unwrap().tuple.remote, server_addr());
}

#[test]
fn connection_ids_rotate_and_are_retired() {
    let mut pair = connected();
    let data = pattern(50_000);
    for round in 0..30 {
        let side = if round % 2 == 0 { Side::Server } else { Side::Client };
        let before = pair.end(side.peer()).remote_cid();
        pair.end(side).rotate_cids();
        assert!(pair.transfer(Side::Client, &data) == data);
        assert!(pair.transfer(Side::Server, &data) == data);
        pair.run_until_quiet();
        assert_ne!(pair.end(side.peer()).remote_cid(), before);
        assert!(pair.end(side).held().local_cids <= 8);
    }
}

/// Connection IDs are replaced automatically: by age at both endpoints, by packet count at the endpoint that
/// receives the packets, and not before.
#[test]
fn old_connection_ids_are_changed() {
    let rules = [
        (CidRotation::new(Duration::from_secs(60), u64::MAX), true, true),
        (CidRotation::new(Duration::MAX, 100), false, true),
    ];
    for (rule, at_client, at_server) in rules {
        let mut pair = Pair::with_transport(|transport| {
            transport.cid_rotation = Some(rule);
            transport.max_idle_timeout = None;
        });
        pair.connect();
        pair.run_until_quiet();
        let ids = |pair: &mut Pair| [Side::Server, Side::Client].map(|side| pair.end(side).remote_cid());
        // Few packets in a short time: nothing is replaced.
        let before = ids(&mut pair);
        let (few, many) = (pattern(10_000), pattern(400_000));
        assert!(pair.transfer(Side::Client, &few) == few);
        pair.run_until_quiet();
        assert_eq!(ids(&mut pair), before, "{rule:?}");
        pair.run_for(Duration::from_secs(61));
        // The server receives many packets, the client only acknowledgments.
        assert!(pair.transfer(Side::Client, &many) == many);
        assert!(pair.transfer(Side::Server, &few) == few);
        pair.run_until_quiet();
        let after = ids(&mut pair);
        // An endpoint replaces the connection IDs that its peer uses.
        assert_eq!(after[1] != before[1], at_server, "the server's {rule:?}");
        if at_client {
            assert_ne!(after[0], before[0], "the client's");
        }
        for side in [Side::Client, Side::Server] {
            assert!(pair.end(side).held().local_cids <= 8, "old ones are given up");
        }
    }
}
