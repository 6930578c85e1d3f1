//! Alternative addresses of the server: announcement, use, withdrawal, and errors of the peer.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_wire::{AddressFlags, Frame, PacketKind, PathId, Side, TransportErrorCode};

use super::injector::encode_as_read;
use super::multipath::multipath;
use super::pair::{Pair, pattern};
use super::paths::SECOND;
use crate::connection::Forged;
use crate::path::MAX_ALTERNATIVES;
use crate::{AlternativeAddress, ConnectionError, Event, FourTuple, OpenPathError};

fn other() -> SocketAddr {
    "[::1]:4434".parse().unwrap()
}

fn v4(last: u8, sequence: u64, retire: bool) -> Frame<'static> {
    let flags = AddressFlags { preferred: false, retire };
    let address = std::net::SocketAddrV4::new([127, 0, 7, last].into(), 4433);
    Frame::AlternativeV4Address { flags, sequence, address }
}

fn inject(pair: &mut Pair, from: Side, frames: &[Frame<'_>]) {
    pair.inject(from, &Forged::new(PacketKind::OneRtt, &encode_as_read(frames)));
    pair.run_until_quiet();
}

fn known(pair: &mut Pair) -> Vec<SocketAddr> {
    pair.client().server_addresses().iter().map(|known| known.address).collect()
}

#[test]
fn a_client_learns_an_address_and_opens_a_path_there() {
    let mut pair = multipath();
    assert_eq!(pair.client().server_addresses(), []);
    pair.server().announce_address(other(), true).unwrap();
    pair.run_until_quiet();
    let learnt = AlternativeAddress { address: other(), preferred: true };
    assert_eq!(pair.client().server_addresses(), [learnt]);
    assert!(pair.client_events.contains(&Event::ServerAddresses));
    let (now, tuple) = (pair.now, FourTuple { local: "[::1]:50001".parse().unwrap(), remote: other() });
    assert_eq!(pair.client().open_path(now, tuple), Ok::<_, OpenPathError>(PathId(1)));
    pair.run_until(SECOND, |pair| pair.client_events.contains(&Event::PathOpened(PathId(1))));
    let data = pattern(500_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    pair.server().withdraw_address(other()).unwrap();
    pair.server().withdraw_address(other()).unwrap_err(); // already withdrawn
    pair.run_until_quiet();
    assert_eq!(known(&mut pair), []);
}

#[test]
fn a_lost_word_is_said_again_unless_there_is_a_newer_one() {
    let mut pair = multipath();
    pair.network =
        Some(Box::new(|side, flying| if side == Side::Client { Vec::new() } else { vec![flying] }));
    pair.server().announce_address(other(), false).unwrap();
    pair.run_for(Duration::from_millis(50));
    pair.server().withdraw_address(other()).unwrap();
    pair.server().announce_address("127.0.0.9:4433".parse().unwrap(), false).unwrap();
    pair.run_for(Duration::from_millis(50));
    pair.network = None;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(known(&mut pair), ["127.0.0.9:4433".parse().unwrap()]);
}

#[test]
fn older_words_and_too_many_addresses_are_ignored() {
    let mut pair = multipath();
    inject(&mut pair, Side::Server, &[v4(1, 5, false), v4(1, 4, true), v4(1, 5, true), v4(2, 0, false)]);
    assert_eq!(known(&mut pair).len(), 2);
    inject(&mut pair, Side::Server, &[v4(1, 6, true)]);
    assert_eq!(known(&mut pair).len(), 1);
    let flood: Vec<Frame<'_>> = (3..=100).map(|last| v4(last, 7, false)).collect();
    inject(&mut pair, Side::Server, &flood);
    // The withdrawn address is remembered too, so that an older announcement does not restore it.
    assert_eq!(known(&mut pair).len(), MAX_ALTERNATIVES - 1);
    assert_eq!(pair.closed(Side::Client), None);
}

#[test]
fn addresses_that_are_no_servers_are_ignored() {
    let mut pair = multipath();
    let address = |ip: [u8; 4], port| Frame::AlternativeV4Address {
        flags: AddressFlags::default(),
        sequence: 0,
        address: std::net::SocketAddrV4::new(ip.into(), port),
    };
    let frames = [address([0, 0, 0, 0], 4433), address([224, 0, 0, 1], 4433), address([127, 0, 0, 5], 53)];
    let fine = address([127, 0, 0, 6], 4433);
    inject(&mut pair, Side::Server, &frames);
    assert_eq!(known(&mut pair), []);
    inject(&mut pair, Side::Server, &[fine]);
    assert_eq!(known(&mut pair).len(), 1);
}

#[test]
fn only_who_is_asked_may_speak() {
    // A client announces an address.
    let mut pair = multipath();
    inject(&mut pair, Side::Client, &[v4(1, 0, false)]);
    let error = pair.closed(Side::Server).unwrap();
    let ConnectionError::Transport(error) = error else { panic!("{error}") };
    assert_eq!((error.code, error.frame_type), (TransportErrorCode::PROTOCOL_VIOLATION, 0x1d58_45e2));
    // A server announces an address to a client that has not requested any.
    let mut pair = Pair::new();
    pair.connect();
    pair.server().announce_address(other(), false).unwrap_err();
    inject(&mut pair, Side::Server, &[v4(1, 0, false)]);
    let error = pair.closed(Side::Client).unwrap();
    let ConnectionError::Transport(error) = error else { panic!("{error}") };
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}
