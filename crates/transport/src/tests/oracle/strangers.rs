//! Attacks without a connection, row by row of docs/threats.md: datagrams from any address, and datagrams of a connection whose address
//! an attacker changes on their way.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_testkit::packets::Initial;
use anabranch_wire::{ConnectionId, Frame, PacketKind, Side};

use super::super::injector::encode;
use super::super::pair::version;
use super::{Attack, NUMBERINGS};
use crate::Numbering;
use crate::connection::Forged;

const SERVER: &[Side] = &[Side::Server];
/// These datagrams belong to no connection, so that their numberings do not matter.
const ONE_PATH: &[Option<Numbering>] = &[None];

/// All attacks, beside a healthy connection to the attacker. A handshake that nobody goes on with costs up to 16 KiB, and half of `max_incoming` may wait.
pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("9", "Initial packets from invented addresses", 1_000_000, |world, n| {
        let bytes = Initial { version: version(), ..Initial::new(&cid(n), &[]) }.seal();
        world.send(Some(stranger(n)), bytes);
    })
    .acknowledges()
    .with(ONE_PATH)
    .on(SERVER)
    .memory(8 << 20)
    .work(60.0),
    Attack::new("19", "Initial packets with random tokens", 100_000, |world, n| {
        let token = [n as u8; 100];
        let bytes = Initial { version: version(), ..Initial::new(&cid(n), &token) }.seal();
        world.send(Some(stranger(n)), bytes);
    })
    .acknowledges()
    .with(ONE_PATH)
    .on(SERVER)
    .memory(8 << 20)
    .work(60.0),
    Attack::new("20", "short packets to unknown connection IDs", 1_000_000, |world, n| {
        let mut bytes = vec![7; 100];
        bytes[0] = 0x40;
        bytes[1..9].copy_from_slice(&cid(n));
        world.send(Some(stranger(n)), bytes);
    })
    .acknowledges()
    .with(ONE_PATH),
    Attack::new("24", "empty datagrams", 1_000_000, |world, n| world.send(Some(stranger(n)), Vec::new()))
        .acknowledges()
        .with(ONE_PATH),
    Attack::new("24", "datagrams of a few bytes", 100_000, |world, n| {
        world.send(Some(stranger(n)), vec![n as u8; 1 + n as usize % 21]);
    })
    .acknowledges()
    .with(ONE_PATH),
    Attack::new("24", "packets of unknown versions", 100_000, |world, n| {
        let mut bytes = vec![0x33; 1_200];
        (bytes[0], bytes[5], bytes[14]) = (0xc0, 8, 8);
        world.send(Some(stranger(n)), bytes);
    })
    .acknowledges()
    .with(ONE_PATH),
    Attack::new("21", "Version Negotiation in the middle of a connection", 100_000, |world, n| {
        let mut bytes = vec![0x80, 0, 0, 0, 0, 8];
        bytes.extend_from_slice(&cid(n));
        bytes.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9]);
        world.send(None, bytes);
    })
    .acknowledges()
    .with(ONE_PATH)
    .on(&[Side::Client]),
    Attack::new("10", "packets whose source is changed to a new address each", 10_000, |world, n| {
        let mut payload = encode(&[Frame::Ping]);
        payload.resize(1_100, 0);
        let now = world.now;
        let bytes = world.attacker().forge(now, &Forged::new(PacketKind::OneRtt, &payload));
        world.send(Some(stranger(n)), bytes);
    })
    .on(SERVER)
    .memory(256 << 10)
    .with(&NUMBERINGS),
];

fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&(n << 20 | 0xa77ac).to_be_bytes()).unwrap()
}

/// Returns one of many addresses where nobody is.
fn stranger(n: u64) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(0x0b00_0000 + (n as u32 & 0xff_ffff));
    (ip, 50_000).into()
}
