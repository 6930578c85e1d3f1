//! Reports of a driver about its sockets: a full socket blocks only its own paths, and a dead one is left at
//! once.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_wire::{Dir, PathId, Side, VarInt};
use bytes::Bytes;

use super::multipath::{multipath, second_addr, two_paths};
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::paths::{address, open_and_wait};
use crate::{Event, FourTuple, SocketBlock, TransmitBuf};

#[test]
fn a_full_socket_holds_up_only_its_own_path() {
    for (held, other) in [(client_addr(), 1), (second_addr(), 0)] {
        let mut pair = two_paths();
        assert_eq!(pair.client().set_socket_blocked(|local| local == held), SocketBlock::Some);
        let sent =
            |pair: &mut Pair| -> Vec<u64> { pair.client().paths().map(|path| path.bytes_sent).collect() };
        let before = sent(&mut pair);
        let data = pattern(500_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        let after = sent(&mut pair);
        assert_eq!(after[1 - other], before[1 - other], "nothing leaves on the held path");
        assert!(after[other] - before[other] > 500_000);
        assert_eq!(pair.client().set_socket_blocked(|_| true), SocketBlock::All);
        assert_eq!(pair.client().set_socket_blocked(|_| false), SocketBlock::Nothing);
        let data = pattern(2_000_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        assert!(sent(&mut pair)[1 - other] > after[1 - other], "it is used again");
    }
}

#[test]
fn a_close_does_not_take_a_full_socket() {
    for held in [client_addr(), second_addr()] {
        let mut pair = two_paths();
        assert_eq!(pair.client().set_socket_blocked(|local| local == held), SocketBlock::Some);
        let now = pair.now;
        pair.client().close(now, VarInt::ZERO, Bytes::new());
        let mut out = TransmitBuf::new(1);
        let transmit = pair.client().poll_transmit(now, &mut out).expect("a path is free");
        assert_ne!(transmit.tuple.local, held);
        assert!(!pair.client().owes_close());
    }
    let mut pair = two_paths();
    assert_eq!(pair.client().set_socket_blocked(|_| true), SocketBlock::All);
    let now = pair.now;
    pair.client().close(now, VarInt::ZERO, Bytes::new());
    assert!(pair.client().poll_transmit(now, &mut TransmitBuf::new(1)).is_none());
    assert!(pair.client().owes_close(), "it waits for room");
    pair.client().set_socket_blocked(|_| false);
    assert!(pair.client().poll_transmit(now, &mut TransmitBuf::new(1)).is_some());
}

/// Loses all packets to and from a client's address.
fn kill(pair: &mut Pair, dead: SocketAddr) {
    pair.network = Some(Box::new(move |side, flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address == dead { Vec::new() } else { vec![flying] }
    }));
}

#[test]
fn data_that_a_failing_path_took_as_the_last_one_moves_to_a_new_path() {
    let mut pair = two_paths();
    kill(&mut pair, client_addr());
    let now = pair.now;
    pair.client().on_unreachable(now, FourTuple { local: client_addr(), remote: server_addr() });
    pair.client().abandon_path(now, PathId(1), VarInt::ZERO).unwrap();
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    pair.client().streams().write(id, &pattern(5_000)).unwrap();
    pair.client().streams().finish(id).unwrap();
    pair.run_for(Duration::from_secs(3));
    let mut received = Vec::new();
    assert!(!pair.read(Side::Server, id, &mut received) && received.is_empty(), "the only path is dead");
    open_and_wait(&mut pair, address(4));
    let began = pair.now;
    pair.run_until(Duration::from_secs(20), |pair| pair.read(Side::Server, id, &mut received));
    assert!(received == pattern(5_000));
    assert!(pair.now - began < Duration::from_millis(500), "{:?}", pair.now - began);
}

#[test]
fn a_path_that_the_host_cannot_send_on_is_left_at_once() {
    let mut pair = two_paths();
    let (dead, now) = (client_addr(), pair.now);
    kill(&mut pair, dead);
    pair.client().on_unreachable(now, FourTuple { local: dead, remote: server_addr() });
    let began = pair.now;
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    // Without the report, a probe timeout would pass first. The server's packets on that path are lost too,
    // which the client cannot know.
    assert!(pair.now - began < Duration::from_millis(500), "{:?}", pair.now - began);
    assert_eq!(pair.client().paths().count(), 2, "it may come back");
}

#[test]
fn a_path_that_cannot_be_sent_on_is_not_opened() {
    let mut pair = multipath();
    let (now, tuple) = (pair.now, FourTuple { local: second_addr(), remote: server_addr() });
    let id = pair.client().open_path(now, tuple).unwrap();
    assert_eq!(pair.client().is_path_open(id), Some(false));
    pair.client().on_unreachable(now, tuple);
    assert_eq!(pair.client().is_path_open(id), None);
    assert!(pair.client().has_path(id), "until nothing of it is under way any longer");
    pair.run_for(Duration::from_secs(10));
    assert!(!pair.client().has_path(id));
    assert!(
        pair.client_events
            .contains(&Event::PathAbandoned { path: PathId(1), code: VarInt::from_u32(0x3e76) })
    );
    assert_eq!(pair.closed(Side::Client), None);
}

#[test]
fn the_only_path_stays_whatever_the_host_says() {
    let mut pair = multipath();
    let now = pair.now;
    pair.client().on_unreachable(now, FourTuple { local: client_addr(), remote: server_addr() });
    assert_eq!(pair.client().is_path_open(PathId::ZERO), Some(true));
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}
