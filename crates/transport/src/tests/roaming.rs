//! Clients whose network changes, on one path: addresses that disappear, networks that stop responding, hosts
//! that sleep.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{Dir, PathId, Side, StreamId, Time};
use bytes::Bytes;

use super::pair::{Pair, client_addr, pattern, server_addr};
use crate::connection::MAX_RESCUES;
use crate::path::MAX_VALIDATIONS;
use crate::{ConnectionError, Event, FourTuple, MigrateError, Obstacle};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn elsewhere(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 3, last), 50_000).into()
}

/// Addresses of the client that do not work: datagrams to and from them are lost.
#[derive(Clone, Default)]
struct Dead(Rc<RefCell<Vec<SocketAddr>>>);

impl Dead {
    fn set(&self, addresses: &[SocketAddr]) {
        *self.0.borrow_mut() = addresses.to_vec();
    }
}

/// Returns a connection with a measured round trip of 20 ms, and the control that makes addresses fail.
fn connected() -> (Pair, Dead) {
    let mut pair = Pair::new();
    let dead = Dead::default();
    let inner = dead.clone();
    pair.network = Some(Box::new(move |from, flying| {
        let client = if from.is_client() { flying.tuple.remote } else { flying.tuple.local };
        if inner.0.borrow().contains(&client) { Vec::new() } else { vec![flying] }
    }));
    pair.connect();
    let data = pattern(200_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_until_quiet();
    (pair, dead)
}

/// Stream that its sender has written completely, and the arrival times of its data.
struct Transfer {
    to: Side,
    id: StreamId,
    received: Vec<u8>,
    arrivals: Vec<Time>,
}

impl Transfer {
    fn begin(pair: &mut Pair, from: Side, data: &[u8]) -> Self {
        let id = pair.end(from).streams().open(Dir::Uni).unwrap();
        let mut rest = Bytes::copy_from_slice(data);
        assert_eq!(pair.end(from).streams().write_bytes(id, &mut rest), Ok(data.len()));
        pair.end(from).streams().finish(id).unwrap();
        Self { to: from.peer(), id, received: Vec::new(), arrivals: Vec::new() }
    }

    fn read(&mut self, pair: &mut Pair) -> bool {
        let before = self.received.len();
        let done = pair.read(self.to, self.id, &mut self.received);
        if self.received.len() > before {
            self.arrivals.push(pair.now);
        }
        done
    }

    fn run_for(&mut self, pair: &mut Pair, time: Duration) {
        let end = pair.now + time;
        pair.run_until(time * 3, |pair| self.read(pair) || pair.now >= end);
    }

    fn finish(&mut self, pair: &mut Pair) {
        pair.run_until(SECOND * 60, |pair| self.read(pair));
    }

    /// Returns the longest gap between arrivals since `from`.
    fn longest_gap(&self, from: Time) -> Duration {
        let times = std::iter::once(from).chain(self.arrivals.iter().copied().filter(|at| *at > from));
        let times: Vec<_> = times.collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }
}

fn tuple(pair: &mut Pair) -> FourTuple {
    pair.client().paths().next().unwrap().tuple
}

#[test]
fn a_client_that_lost_its_address_goes_on_within_two_round_trips() {
    for from in [Side::Client, Side::Server] {
        let (mut pair, dead) = connected();
        let data = pattern(900_000);
        let mut transfer = Transfer::begin(&mut pair, from, &data);
        transfer.run_for(&mut pair, MS * 35);
        dead.set(&[client_addr()]);
        let lost = pair.now;
        // The host takes this time to notice the change of its network.
        transfer.run_for(&mut pair, MS * 30);
        let now = pair.now;
        pair.client().relocate(now, elsewhere(1)).unwrap();
        transfer.finish(&mut pair);
        assert!(transfer.received == data);
        assert!(transfer.longest_gap(lost) < MS * 200, "{from:?}: {:?}", transfer.longest_gap(lost));
        assert_eq!(tuple(&mut pair).local, elsewhere(1));
        assert_eq!(pair.server().paths().next().unwrap().tuple.remote, elsewhere(1));
        assert!(pair.client_events.iter().any(|event| matches!(event, Event::PathChanged { .. })));
    }
}

/// Checks that a client uses a new connection ID at each new address (RFC 9000 §9.5).
#[test]
fn another_address_is_never_left_with_a_connection_id_of_before() {
    let (mut pair, _) = connected();
    let mut seen = vec![pair.client().remote_cid()];
    for last in 1..10 {
        let now = pair.now;
        pair.client().relocate(now, elsewhere(last)).unwrap();
        let cid = pair.client().remote_cid();
        assert!(!seen.contains(&cid));
        seen.push(cid);
        let data = pattern(20_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_until_quiet();
    }
}

#[test]
fn addresses_that_never_answer_cost_all_connection_ids_and_no_more() {
    let (mut pair, dead) = connected();
    let homeless: Vec<_> = (1..20).map(elsewhere).chain([client_addr()]).collect();
    dead.set(&homeless);
    let moved = (1..20).take_while(|last| {
        let now = pair.now;
        let moved = pair.client().relocate(now, elsewhere(*last));
        pair.run_for(MS * 100);
        assert!(matches!(moved, Ok(()) | Err(MigrateError::NoConnectionId)), "{moved:?}");
        moved.is_ok()
    });
    let moved = moved.count();
    assert!((1..8).contains(&moved), "{moved}");
    dead.set(&[]);
    let data = pattern(20_000);
    assert!(pair.transfer(Side::Client, &data) == data, "the network is there again");
}

#[test]
fn a_path_that_falls_silent_is_told_of_even_by_an_end_that_only_receives() {
    for from in [Side::Client, Side::Server] {
        let (mut pair, dead) = connected();
        pair.client().watch_silence(true);
        let data = pattern(900_000);
        let mut transfer = Transfer::begin(&mut pair, from, &data);
        transfer.run_for(&mut pair, MS * 65);
        assert!(!pair.client_events.contains(&Event::PathSilent(PathId(0))));
        dead.set(&[client_addr()]);
        let lost = pair.now;
        pair.run_until(SECOND, |pair| pair.client_events.contains(&Event::PathSilent(PathId(0))));
        assert!(pair.now - lost < MS * 160, "{from:?}: {:?}", pair.now - lost);
        // The other network works, while the present one stays silent.
        let tuple = FourTuple { local: elsewhere(1), remote: server_addr() };
        let now = pair.now;
        pair.client().rescue(now, tuple).unwrap();
        transfer.finish(&mut pair);
        assert!(transfer.received == data);
        assert!(transfer.longest_gap(lost) < MS * 250, "{from:?}: {:?}", transfer.longest_gap(lost));
    }
}

/// A link of 24 Mbit/s with a round trip of 0.6 ms, whose queue takes up to 66 ms. Probe timeouts computed
/// before the queue filled are too short.
#[test]
fn a_path_whose_queue_fills_is_not_silent() {
    const BYTES_PER_MS: u32 = 3_000;
    let (mut pair, _) = connected();
    pair.delay = Duration::from_micros(300);
    let mut busy = Time::ZERO;
    pair.network = Some(Box::new(move |from, mut flying| {
        if from == Side::Server {
            let begins = busy.max(flying.at);
            if begins.saturating_since(flying.at) > MS * 66 {
                return Vec::new();
            }
            busy = begins + MS * u32::try_from(flying.bytes.len()).unwrap() / BYTES_PER_MS;
            flying.at = busy;
        }
        vec![flying]
    }));
    for _ in 0..4 {
        assert!(pair.transfer(Side::Client, &pattern(20_000)) == pattern(20_000));
    }
    pair.client().watch_silence(true);
    for _ in 0..4 {
        let data = pattern(900_000);
        let begun = pair.now;
        assert!(pair.transfer(Side::Server, &data) == data);
        assert!(pair.now - begun > MS * 280, "the link is a limit: {:?}", pair.now - begun);
        pair.run_for(SECOND);
    }
    assert!(!pair.client_events.contains(&Event::PathSilent(PathId(0))));
}

#[test]
fn a_client_that_receives_nothing_new_asks_once() {
    let (mut pair, _) = connected();
    pair.client().watch_silence(true);
    let data = pattern(50_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    pair.run_for(SECOND);
    let sent = pair.bytes_to_server;
    pair.run_for(SECOND * 10);
    assert_eq!(pair.bytes_to_server, sent);
    assert!(!pair.client_events.contains(&Event::PathSilent(PathId(0))));
}

#[test]
fn a_path_that_speaks_again_stays_where_it_is() {
    let (mut pair, dead) = connected();
    let before = tuple(&mut pair);
    dead.set(&[client_addr(), elsewhere(1)]);
    let now = pair.now;
    pair.client().rescue(now, FourTuple { local: elsewhere(1), remote: server_addr() }).unwrap();
    pair.run_for(SECOND * 7);
    assert!(pair.client().uses_local(elsewhere(1)), "asked as long as nothing is heard");
    dead.set(&[elsewhere(1)]);
    pair.client().ping(PathId(0));
    pair.run_for(MS * 100);
    assert!(!pair.client().uses_local(elsewhere(1)));
    dead.set(&[]);
    pair.run_for(SECOND * 2);
    assert_eq!(tuple(&mut pair), before);
}

#[test]
fn no_more_addresses_are_asked_than_there_is_room_for() {
    const { assert!(MAX_RESCUES < MAX_VALIDATIONS) };
    let (mut pair, dead) = connected();
    dead.set(&(1..20).map(elsewhere).chain([client_addr()]).collect::<Vec<_>>());
    for last in 1..20 {
        let now = pair.now;
        let tuple = FourTuple { local: elsewhere(last), remote: server_addr() };
        let _ = pair.client().rescue(now, tuple);
        pair.run_for(MS * 10);
    }
    let asked = (1..20).filter(|last| pair.client().uses_local(elsewhere(*last))).count();
    assert_eq!(asked, MAX_RESCUES);
}

/// After an outage, `try_again` sends data at once, although the probe timeout has backed off.
#[test]
fn what_waited_for_the_network_leaves_when_it_is_there_again() {
    let (mut pair, dead) = connected();
    dead.set(&[client_addr()]);
    let data = pattern(1_000);
    let mut transfer = Transfer::begin(&mut pair, Side::Client, &data);
    transfer.run_for(&mut pair, SECOND * 9);
    dead.set(&[]);
    let back = pair.now;
    pair.client().try_again(back);
    transfer.finish(&mut pair);
    assert!(pair.now - back < MS * 50, "{:?}", pair.now - back);
}

#[test]
fn silence_says_since_when_and_whether_this_end_was_asleep() {
    let (mut pair, dead) = connected();
    dead.set(&[client_addr()]);
    pair.run_for(SECOND * 31);
    let Some(ConnectionError::TimedOut(silence)) = pair.closed(Side::Client) else { panic!() };
    assert_eq!((silence.heard.unwrap().as_secs(), silence.asleep), (30, Duration::ZERO));
    assert!(pair.closed(Side::Client).unwrap().is_lost());

    let mut pair = Pair::new();
    pair.network = Some(Box::new(|_, _| Vec::new()));
    pair.run_for(SECOND * 31);
    let never = pair.closed(Side::Client).unwrap();
    assert!(matches!(never, ConnectionError::TimedOut(silence) if silence.heard.is_none()));
    assert_eq!(never.to_string(), "timed out: the peer has never answered");
    assert!(!never.is_lost());
}

/// The clock of a suspended host may stop, so the suspension is reported by other means.
#[test]
fn a_client_that_slept_longer_than_the_idle_timeout_learns_soon_that_nobody_waits() {
    let (mut pair, dead) = connected();
    dead.set(&[client_addr()]);
    let awake = pair.now;
    pair.client().on_awake(awake, SECOND * 40);
    pair.run_until(SECOND * 5, |pair| pair.closed(Side::Client).is_some());
    assert!(pair.now - awake < MS * 600, "{:?}", pair.now - awake);
    let lost = pair.closed(Side::Client).unwrap().to_string();
    assert!(lost.contains("answered until") && lost.contains("asleep for 40.0 s"), "{lost}");

    // If the server still has the connection, the client continues.
    let (mut pair, _) = connected();
    let now = pair.now;
    pair.client().on_awake(now, SECOND * 40);
    pair.run_for(SECOND * 5);
    assert_eq!(pair.closed(Side::Client), None);
    let now = pair.now;
    assert_eq!(pair.client().silence(now).asleep, Duration::ZERO);
}

#[test]
fn what_the_host_says_ends_only_a_connection_that_was_never_answered() {
    let obstacle = Obstacle::from(&io::Error::from(io::ErrorKind::ConnectionRefused));
    let mut pair = Pair::new();
    let now = pair.now;
    assert!(pair.client().refuse(now, obstacle.clone()));
    pair.run_for(SECOND);
    assert_eq!(pair.closed(Side::Client), Some(&ConnectionError::Unreachable(obstacle.clone())));
    assert_eq!(pair.bytes_to_server, 0);

    let mut pair = Pair::new();
    let heard = Rc::new(Cell::new(false));
    let inner = Rc::clone(&heard);
    pair.network = Some(Box::new(move |from, flying| {
        inner.set(inner.get() || from.is_server());
        vec![flying]
    }));
    pair.run_until(SECOND, |_| heard.get());
    pair.run_for(MS * 11);
    let now = pair.now;
    assert!(!pair.client().refuse(now, obstacle.clone()), "in the middle of the handshake");
    pair.connect();
    let now = pair.now;
    assert!(!pair.client().refuse(now, obstacle));
    assert_eq!(pair.closed(Side::Client), None);
}

#[test]
fn who_must_not_migrate_does_not() {
    let mut pair = Pair::with(|_, server| Arc::make_mut(&mut server.transport).migration = false);
    let now = pair.now;
    assert_eq!(pair.client().relocate(now, elsewhere(1)), Err(MigrateError::NotConfirmed));
    pair.connect();
    let tuple = FourTuple { local: elsewhere(1), remote: server_addr() };
    assert_eq!(pair.client().relocate(now, elsewhere(1)), Err(MigrateError::Forbidden));
    assert_eq!(pair.client().rescue(now, tuple), Err(MigrateError::Forbidden));
    assert_eq!(pair.server().relocate(now, elsewhere(1)), Err(MigrateError::Server));
}
