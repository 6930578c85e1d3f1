//! Steps shared by tests with several paths.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_wire::{Dir, PacketKind, PathId, Side, StreamId};

use super::multipath::second_addr;
use super::pair::{Flying, Pair, pattern, server_addr};
use crate::connection::Forged;
use crate::{Event, FourTuple, MultipathConfig, Numbering, NumberingChoice, OpenPathError, TransportConfig};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const SIDES: [Side; 2] = [Side::Client, Side::Server];
pub(super) const NUMBERINGS: [Numbering; 2] = [Numbering::Multiple, Numbering::Single];

/// Returns another address of the client.
pub(super) fn address(last: u8) -> SocketAddr {
    ([127, 0, 0, last], 50_000 + u16::from(last)).into()
}

/// Returns the client's address of a datagram.
pub(super) fn address_of_client(from: Side, flying: &Flying) -> SocketAddr {
    if from.is_client() { flying.tuple.remote } else { flying.tuple.local }
}

pub(super) fn open(pair: &mut Pair, local: SocketAddr) -> Result<PathId, OpenPathError> {
    let now = pair.now;
    pair.client().open_path(now, FourTuple { local, remote: server_addr() })
}

/// Opens a path and waits until both endpoints may use it.
pub(super) fn open_and_wait(pair: &mut Pair, local: SocketAddr) -> PathId {
    let id = open(pair, local).unwrap();
    pair.run_until(SECOND, |pair| {
        let opened = Event::PathOpened(id);
        pair.client_events.contains(&opened) && pair.server_events.contains(&opened)
    });
    id
}

/// Returns a pair with two paths: one with 10 ms of delay, the other with four times as much.
pub(super) fn far_apart(numbering: Numbering) -> Pair {
    far_apart_with(numbering, second_addr(), |_| {})
}

/// Returns such a pair, whose path from the client's address `far` is the slow one. The endpoints have the
/// configuration that `change` makes.
pub(super) fn far_apart_with(
    numbering: Numbering,
    far: SocketAddr,
    change: impl Fn(&mut TransportConfig),
) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        let choice = NumberingChoice::Only(numbering);
        transport.multipath = Some(MultipathConfig { numbering: choice, ..MultipathConfig::default() });
        change(transport);
    });
    pair.connect();
    pair.run_until_quiet();
    open_and_wait(&mut pair, second_addr());
    pair.network = Some(Box::new(move |from, mut flying| {
        if address_of_client(from, &flying) == far {
            flying.at += Duration::from_millis(30);
        }
        vec![flying]
    }));
    pair
}

pub(super) fn ids(pair: &mut Pair, side: Side) -> Vec<u32> {
    pair.end(side).paths().map(|path| path.id.0).collect()
}

/// Returns the number of bytes sent on each path.
pub(super) fn sent(pair: &mut Pair, side: Side) -> Vec<u64> {
    pair.end(side).paths().map(|path| path.bytes_sent).collect()
}

/// Sends a payload on the main path and waits until it has been processed.
pub(super) fn send(pair: &mut Pair, from: Side, payload: &[u8]) {
    pair.inject(from, &Forged::new(PacketKind::OneRtt, &[payload, &[0; 4]].concat()));
    pair.run_until_quiet();
}

/// Writes 100,000 bytes to a new stream, and runs until some of them have been sent.
pub(super) fn begin_upload(pair: &mut Pair, from: Side) -> StreamId {
    let id = pair.end(from).streams().open(Dir::Uni).unwrap();
    pair.end(from).streams().write(id, &pattern(100_000)).unwrap();
    pair.end(from).streams().finish(id).unwrap();
    pair.run_for(Duration::from_millis(15));
    id
}

pub(super) fn still_works(pair: &mut Pair) {
    let data = pattern(50_000);
    for side in SIDES {
        assert!(pair.transfer(side, &data) == data, "from the {side:?}");
        assert_eq!(pair.closed(side), None);
    }
}
