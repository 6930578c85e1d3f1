//! Regressions found by the model of random operations: paths that end while data is in flight on them.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{Dir, Frame, PacketKind, PathId, Side, TransportErrorCode as Code, VarInt};

use super::injector::encode;
use super::multipath::{multipath, second_addr, two_paths};
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::paths::{SIDES, address_of_client};
use crate::connection::Forged;
use crate::schedule::Algorithm;
use crate::{ConnectionError, Event, FourTuple, MultipathConfig};

/// Drops all datagrams between the server and `address` until the returned cell is cleared.
fn cut(pair: &mut Pair, address: SocketAddr) -> Rc<Cell<bool>> {
    let is_cut = Rc::new(Cell::new(true));
    let cut = Rc::clone(&is_cut);
    pair.network = Some(Box::new(move |from, flying| {
        if cut.get() && address_of_client(from, &flying) == address { Vec::new() } else { vec![flying] }
    }));
    is_cut
}

#[test]
fn a_path_whose_end_the_peer_has_not_heard_of_draws_no_stateless_reset() {
    for side in SIDES {
        let mut pair = two_paths();
        let now = pair.now;
        pair.end(side).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
        // PATH_ABANDON is sent on path 0 and does not arrive for a long time. The peer continues to use path
        // 1.
        let is_cut = cut(&mut pair, client_addr());
        let id = pair.end(side.peer()).streams().open(Dir::Uni).unwrap();
        pair.end(side.peer()).streams().write(id, &pattern(50_000)).unwrap();
        pair.run_for(Duration::from_secs(3));
        assert_eq!(pair.closed(side.peer()), None);
        is_cut.set(false);
        pair.run_for(Duration::from_secs(5));
        pair.end(side.peer()).streams().finish(id).unwrap();
        let mut received = Vec::new();
        pair.run_until(Duration::from_secs(5), |pair| pair.read(side, id, &mut received));
        assert!(received == pattern(50_000));
        for side in SIDES {
            assert_eq!(pair.closed(side), None);
            let left: Vec<_> = pair.end(side).paths().map(|path| path.id).collect();
            assert_eq!(left, [PathId(0)], "{side:?}");
        }
    }
}

#[test]
fn an_abandoned_path_holds_no_timer_in_the_past() {
    for side in SIDES {
        let mut paced = 0;
        for steps in 0..40 {
            let mut pair = two_paths();
            let id = pair.end(side).streams().open(Dir::Uni).unwrap();
            pair.end(side).streams().write(id, &pattern(300_000)).unwrap();
            for _ in 0..steps {
                pair.step();
            }
            let now = pair.now;
            let soon = pair.end(side).poll_timeout().is_some_and(|at| at < now + Duration::from_millis(5));
            paced += u32::from(soon);
            pair.end(side).abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
            pair.drain();
            assert!(pair.end(side).poll_timeout().is_some_and(|at| at > now), "{side:?} after {steps} steps");
        }
        assert!(paced > 0, "the pacer never held anything back");
    }
}

#[test]
fn ends_that_give_up_each_others_path_at_the_same_time_close_even_if_nobody_hears_it_at_first() {
    for lost in [0, 1, 2, 6] {
        let mut pair = two_paths();
        let left = Cell::new(lost);
        pair.network = Some(Box::new(move |_, flying| match left.get() {
            0 => vec![flying],
            some => {
                left.set(some - 1);
                Vec::new()
            }
        }));
        let now = pair.now;
        pair.client().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
        pair.server().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(Duration::from_secs(10));
        for side in SIDES {
            let code = match pair.closed(side) {
                Some(ConnectionError::Transport(error) | ConnectionError::PeerTransport(error)) => error.code,
                other => panic!("{side:?} with {lost} lost: {other:?}"),
            };
            assert_eq!(code, Code::NO_VIABLE_PATH);
        }
    }
}

#[test]
fn what_comes_to_an_address_that_the_client_has_left_does_not_bring_it_back() {
    let mut pair = multipath();
    let [first, second]: [SocketAddr; 2] = [3, 4].map(|last| ([127, 0, 0, last], 50_000).into());
    for local in [first, second] {
        let now = pair.now;
        pair.client().migrate(now, local).unwrap();
        let tuple = FourTuple { local, remote: server_addr() };
        let moved = Event::PathChanged { path: PathId(0), tuple };
        pair.run_until(Duration::from_secs(2), |pair| pair.client_events.contains(&moved));
        pair.run_until_quiet();
    }
    // The newest packet of the server is a non-probing packet. It arrives at the client's first address.
    pair.inject(Side::Server, &Forged::new(PacketKind::OneRtt, &encode(&[Frame::Ping; 4])));
    pair.run_until_quiet();
    assert_eq!(pair.client().paths().next().unwrap().tuple.local, second);
    assert_eq!(pair.server().paths().next().unwrap().tuple.remote, second);
}

#[test]
fn copies_of_limits_are_not_copied_in_their_turn() {
    for scheduler in [Algorithm::Redundant, Algorithm::MinRttDuplicate] {
        let mut pair = Pair::with_transport(|transport| {
            transport.multipath = Some(MultipathConfig { scheduler, ..MultipathConfig::default() });
            transport.streams.connection_window = 20_000;
            transport.streams.connection_window_max = 20_000;
        });
        pair.connect();
        pair.run_until_quiet();
        let now = pair.now;
        pair.client().open_path(now, FourTuple { local: second_addr(), remote: server_addr() }).unwrap();
        for side in SIDES {
            let data = pattern(200_000);
            assert!(pair.transfer(side, &data) == data);
        }
        pair.run_for(Duration::from_secs(2));
        let sent = pair.bytes_to_client + pair.bytes_to_server;
        pair.run_for(Duration::from_secs(5));
        let more = pair.bytes_to_client + pair.bytes_to_server - sent;
        assert_eq!(more, 0, "{scheduler:?} has nothing to say");
    }
}

#[test]
fn a_path_that_moves_while_it_is_being_opened_is_open_where_it_arrives() {
    let mut pair = two_paths();
    let now = pair.now;
    let [nowhere, third]: [SocketAddr; 2] = [3, 4].map(|last| ([127, 0, 0, last], 50_000).into());
    cut(&mut pair, nowhere);
    pair.client().open_path(now, FourTuple { local: nowhere, remote: server_addr() }).unwrap();
    // The server abandons the other paths, so that the new one becomes the main path.
    pair.server().abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
    pair.inject_frames(Side::Server, &[Frame::PathAbandon { path: PathId(1), code: VarInt::from_u32(0x3e) }]);
    pair.run_for(Duration::from_millis(15));
    let now = pair.now;
    pair.client().migrate(now, third).unwrap();
    pair.run_for(Duration::from_secs(1));
    assert!(pair.client_events.contains(&Event::PathOpened(PathId(2))));
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.closed(Side::Client), None);
    assert_eq!(pair.client().paths().next().unwrap().tuple.local, third);
}

#[test]
fn the_last_path_is_opened_even_if_the_peer_has_got_its_answer_long_before() {
    let mut pair = two_paths();
    let third: SocketAddr = ([127, 0, 0, 3], 50_000).into();
    // The client's first challenge arrives. Its responses to the server's challenges do not.
    let (left, is_cut) = (Cell::new(1), Rc::new(Cell::new(true)));
    let cut = Rc::clone(&is_cut);
    pair.network = Some(Box::new(move |from, flying| {
        let lost = cut.get()
            && from.is_client()
            && flying.tuple.remote == third
            && flying.bytes.len() >= 1200
            && left.replace(0) == 0;
        if lost { Vec::new() } else { vec![flying] }
    }));
    let now = pair.now;
    pair.client().open_path(now, FourTuple { local: third, remote: server_addr() }).unwrap();
    pair.run_until(Duration::from_secs(1), |pair| pair.client_events.contains(&Event::PathOpened(PathId(2))));
    for path in [0, 1] {
        let now = pair.now;
        pair.client().abandon_path(now, PathId(path), VarInt::from_u32(0x3e)).unwrap();
    }
    pair.run_for(Duration::from_secs(8));
    assert!(!pair.server_events.contains(&Event::PathOpened(PathId(2))));
    is_cut.set(false);
    pair.run_for(Duration::from_secs(8));
    assert!(pair.server_events.contains(&Event::PathOpened(PathId(2))));
    for side in SIDES {
        let data = pattern(50_000);
        assert!(pair.transfer(side, &data) == data);
        assert_eq!(pair.closed(side), None);
    }
}
