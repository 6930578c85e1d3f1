//! Preferred addresses of servers (RFC 9000 §9.6), datagram by datagram.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{ConnectionId, PathId, Side, VarInt};
use bytes::Bytes;

use super::migration::elsewhere;
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::sent::{Sent, watch_sent};
use crate::{Event, FourTuple, PreferredAddresses};

const PREFERRED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 4434);
const MS: Duration = Duration::from_millis(1);

fn preferred() -> SocketAddr {
    PREFERRED.into()
}

fn preferring() -> Pair {
    Pair::with(|_, server| {
        server.preferred_address = Some(PreferredAddresses { v4: Some(PREFERRED), v6: None });
    })
}

fn tuple(pair: &mut Pair, side: Side) -> FourTuple {
    pair.end(side).paths().next().unwrap().tuple
}

fn reversed(tuple: FourTuple) -> FourTuple {
    FourTuple { local: tuple.remote, remote: tuple.local }
}

/// Connection IDs of the server's datagrams from its preferred address, and the sizes of these datagrams.
#[derive(Default)]
struct FromPreferred {
    cids: BTreeSet<ConnectionId>,
    sizes: Vec<usize>,
}

/// A server answers at its preferred address, but sends nothing else from there until the client has
/// responded to its challenge.
#[test]
fn a_server_leaves_its_address_only_for_a_validated_path() {
    let mut pair = preferring();
    let seen = Rc::<RefCell<FromPreferred>>::default();
    let (into, mut full) = (Rc::clone(&seen), 0);
    pair.network = Some(Box::new(move |from, mut flying| {
        if from.is_server() && flying.tuple.remote == preferred() {
            into.borrow_mut().cids.insert(ConnectionId::new(&flying.bytes[1..9]).unwrap());
            into.borrow_mut().sizes.push(flying.bytes.len());
        }
        if from.is_client() && flying.tuple.local == preferred() && flying.bytes.len() >= 1_200 {
            full += 1;
            // The first one is the client's challenge. The responses to the server's arrive late.
            flying.at += MS * if full > 1 { 500 } else { 0 };
        }
        vec![flying]
    }));
    pair.run_until(Duration::from_secs(1), |pair| pair.server_handle.is_some());
    let now = pair.now;
    let sent = watch_sent(pair.server(), now);
    pair.connect();
    let data = pattern(100_000);
    pair.run_until(Duration::from_secs(1), |pair| tuple(pair, Side::Client).remote == preferred());
    let moved = pair.now;
    pair.run_for(MS * 12);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert!(pair.now - moved < MS * 400, "before the server has the response");
    assert_eq!(tuple(&mut pair, Side::Server).local, server_addr());
    let probing = |sent: &Sent| {
        let cids = &seen.borrow().cids;
        sent.packets().into_iter().filter(|one| cids.contains(&one.dcid)).all(|one| one.is_probing)
    };
    assert!(probing(&sent), "the server only probes there");
    assert!(seen.borrow().sizes.iter().all(|size| *size == 1_200), "RFC 9000 §8.2.1");
    assert!(seen.borrow().sizes.len() >= 2, "a response and a challenge");
    assert!(!pair.server_events.iter().any(|event| matches!(event, Event::PathChanged { .. })));
    pair.run_for(MS * 600);
    assert_eq!(tuple(&mut pair, Side::Server), FourTuple { local: preferred(), remote: client_addr() });
    assert!(pair.server().paths().next().unwrap().validated);
    let before = pair.bytes_to_client;
    assert!(pair.transfer(Side::Server, &data) == data);
    assert!(pair.bytes_to_client > before && !probing(&sent), "and then it moves");
}

/// A server whose challenges from its preferred address remain without a response stays where it is.
#[test]
fn a_server_stays_if_its_preferred_address_reaches_nobody() {
    let mut pair = preferring();
    let mut answered = false;
    pair.network = Some(Box::new(move |from, flying| {
        let lost = from.is_server() && flying.tuple.remote == preferred() && answered;
        answered |= from.is_server() && flying.tuple.remote == preferred();
        if lost { Vec::new() } else { vec![flying] }
    }));
    pair.connect();
    let data = pattern(100_000);
    for _ in 0..3 {
        assert!(pair.transfer(Side::Server, &data) == data);
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_for(Duration::from_secs(2));
    }
    assert_eq!(tuple(&mut pair, Side::Client).remote, preferred());
    assert_eq!(tuple(&mut pair, Side::Server).local, server_addr());
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
}

/// RFC 9000 §9.6.3. The client calls `migrate` while it validates the preferred address, and the responses
/// arrive in every order.
#[test]
fn a_client_that_migrates_meanwhile_ends_at_the_preferred_address() {
    let late = [0, 50, 100];
    let pairs = late.into_iter().flat_map(|one| late.map(|other| [one, other]));
    for delays in pairs.flat_map(|[one, other]| late.map(|third| [one, other, third])) {
        let mut pair = preferring();
        pair.network = Some(Box::new(move |from, mut flying| {
            let FourTuple { local, remote } = flying.tuple;
            let which =
                [(client_addr(), preferred()), (elsewhere(), server_addr()), (elsewhere(), preferred())];
            if from.is_server()
                && let Some(at) = which.iter().position(|one| *one == (local, remote))
            {
                flying.at += MS * delays[at];
            }
            vec![flying]
        }));
        pair.run_until(Duration::from_secs(1), |pair| pair.client_events.contains(&Event::Confirmed));
        let now = pair.now;
        pair.client().migrate(now, elsewhere()).unwrap();
        pair.run_for(Duration::from_secs(2));
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        assert!(pair.transfer(Side::Server, &data) == data);
        let wanted = FourTuple { local: elsewhere(), remote: preferred() };
        assert_eq!(tuple(&mut pair, Side::Client), wanted, "{delays:?}");
        assert_eq!(tuple(&mut pair, Side::Server), reversed(wanted), "{delays:?}");
        assert_eq!(pair.client().held().validations, 0);
    }
}

/// A client for which the server has issued too few connection IDs to validate both addresses keeps to the
/// original one.
#[test]
fn a_client_with_few_connection_ids_migrates_at_the_original_address() {
    let mut pair = Pair::with(|client, server| {
        std::sync::Arc::make_mut(&mut client.transport).active_connection_id_limit = 3;
        server.preferred_address = Some(PreferredAddresses { v4: Some(PREFERRED), v6: None });
    });
    pair.run_until(Duration::from_secs(1), |pair| {
        pair.client_events.contains(&Event::Confirmed) && pair.client().held().unused_cids == 1
    });
    let now = pair.now;
    pair.client().migrate(now, elsewhere()).unwrap();
    pair.run_for(Duration::from_secs(2));
    let wanted = FourTuple { local: elsewhere(), remote: server_addr() };
    assert_eq!(tuple(&mut pair, Side::Client), wanted);
    assert_eq!(tuple(&mut pair, Side::Server), reversed(wanted));
}

/// A client asks at the preferred address of its own connection only, not at that of an earlier one.
#[test]
fn a_preferred_address_is_forgotten_with_its_connection() {
    let mut pair = preferring();
    pair.connect();
    pair.run_until_quiet();
    assert_eq!(tuple(&mut pair, Side::Client).remote, preferred());
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), Bytes::new());
    pair.run_until_quiet();
    let before = pair.sent_to[&preferred()];
    pair.restart_server(|server| server.preferred_address = None);
    pair.reconnect();
    assert!(pair.client().has_early_keys());
    assert_eq!(pair.client().other_addresses(), []);
    pair.client().ping(PathId::ZERO);
    pair.connect();
    let accepted = Event::Connected { early_data_accepted: true };
    assert!(pair.client_events.contains(&accepted));
    pair.run_for(Duration::from_secs(2));
    assert_eq!(tuple(&mut pair, Side::Client).remote, server_addr());
    assert_eq!(pair.sent_to[&preferred()], before);
}
