//! Tests of several paths without a connection: no handshake, no keys, no streams.

mod acknowledgments;
mod addresses;
mod candidates;
mod identifiers;
mod negotiation;
mod silence;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_recovery::{Recovery, Sent};
use anabranch_wire::{ConnectionId, PathId, Side, SpaceId, Time};

use super::{Multipath, PathSet};
use crate::config::TransportConfig;
use crate::datagram_io::FourTuple;
use crate::path::{LocalCids, Path, PathCids, RemoteCids};
use crate::token::{Token, Tokens};
use crate::{AckPath, MultipathConfig};

const ZERO: PathId = PathId(0);
const ONE: PathId = PathId(1);
const TWO: PathId = PathId(2);

/// Largest path ID that both ends allow in these tests.
const MAX_ID: u32 = 3;

const fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the addresses of the path with this number. Each path has its own interface; the server's address
/// is the same.
fn tuple(path: u32) -> FourTuple {
    FourTuple { local: local(path), remote: "192.0.2.1:443".parse().unwrap() }
}

fn local(path: u32) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, path as u8 + 1], 5_000))
}

fn cid(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

fn config(multipath: MultipathConfig) -> TransportConfig {
    TransportConfig::default().with_multipath(Some(multipath))
}

fn path(id: PathId, config: &TransportConfig) -> Path {
    let number = id.0 as u8;
    let mut path = Path::new(
        id,
        tuple(id.0),
        Recovery::new(&config.recovery, Time::ZERO),
        PathCids {
            local: LocalCids::new(id, cid(number)),
            remote: RemoteCids::new(id, cid(0x80 + number), 4),
            used_local: cid(number),
        },
        &config.ack,
    );
    path.set_validated();
    path
}

/// Creates a set with path 0 alone, before any negotiation.
fn alone(side: Side, config: TransportConfig) -> PathSet {
    let first = path(ZERO, &config);
    PathSet::new(side, Arc::new(config), first)
}

/// Creates a set in which `count` paths are open, with a packet number space for each.
fn open(side: Side, count: u32, config: TransportConfig) -> PathSet {
    let mut set = alone(side, config);
    set.multipath =
        Some(Box::new(Multipath::new(MultipathConfig::default().scheduler(), MAX_ID, MAX_ID, (4, 4))));
    for id in (1..count).map(PathId) {
        let path = path(id, &set.config);
        set.list.insert(path);
        set.multipath.as_mut().unwrap().take(id);
    }
    set
}

/// Creates a client with two paths and the default settings.
fn two() -> PathSet {
    open(Side::Client, 2, config(MultipathConfig::default()))
}

/// Creates a client with two paths, with round trips of 20 ms on path 0 and 100 ms on path 1.
fn measured(ack: AckPath) -> PathSet {
    let ack = crate::AckConfig::default().with_path(ack);
    let mut set = open(Side::Client, 2, config(MultipathConfig::default()).with_ack(ack));
    measure(&mut set, ZERO, 20);
    measure(&mut set, ONE, 100);
    set
}

/// Gives a path an RTT sample.
fn measure(set: &mut PathSet, id: PathId, millis: u64) {
    let now = at(millis);
    set.list.get_mut(id).unwrap().recovery.on_echo(now, Time::ZERO, Duration::ZERO);
}

/// Sends an ack-eliciting packet on a path.
fn send(set: &mut PathSet, now: Time, id: PathId) {
    let recovery = &mut set.list.get_mut(id).unwrap().recovery;
    let order = recovery.next_order(SpaceId::Data);
    let sent = Sent {
        time: now,
        size: 1_200,
        ack_eliciting: true,
        in_flight: true,
        ect: false,
        mtu_probe: false,
        owed: Tokens::from_slice(&[Token::Ping]),
    };
    recovery.on_sent(SpaceId::Data, order, sent);
    set.on_path_asked(now, id, &[Token::Ping]);
}

/// Applies `change` to a path.
fn change(set: &mut PathSet, id: PathId, change: impl FnOnce(&mut Path)) {
    change(set.list.get_mut(id).unwrap());
}
