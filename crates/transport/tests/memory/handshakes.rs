//! Memory that clients make a server allocate before their addresses are validated.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_testkit::packets::Initial;
use anabranch_transport::wire::{ConnectionId, Frame, Time};
use anabranch_transport::{
    Datagram, Endpoint, EndpointConfig, FourTuple, MAX_UNVALIDATED_MEMORY, RetryPolicy, TransmitBuf,
};

use crate::counting::live;
use crate::ends::{configs, server_addr};

/// Maximum number of bytes that one client's handshake may make the server allocate.
const MOST: isize = 16 * 1024;

const NOW: Time = Time::from_millis(1_000);

/// A client that never validates its address.
struct Attacker {
    tuple: FourTuple,
    dcid: ConnectionId,
    next: u64,
}

impl Attacker {
    fn new(index: u16) -> Self {
        let [high, low] = index.to_be_bytes();
        let remote: SocketAddr = (Ipv4Addr::new(10, 0, high, low), 50_000).into();
        let dcid = ConnectionId::new(&[9, 9, 9, 9, 9, 9, high, low]).unwrap();
        Self { tuple: FourTuple { local: server_addr(), remote }, dcid, next: 0 }
    }

    /// Returns an Initial with a CRYPTO frame for each of these offsets and its data.
    fn packet(&mut self, frames: &[(u64, &[u8])]) -> Vec<u8> {
        let frames: Vec<_> = frames.iter().map(|&(offset, data)| Frame::Crypto { offset, data }).collect();
        let packet = Initial { pn: self.next, frames: &frames, ..Initial::new(&self.dcid, &[]) }.seal();
        self.next += 1;
        packet
    }
}

/// Server under attack, and the bytes that its calls have allocated and not freed.
struct Server {
    endpoint: Endpoint,
    buf: TransmitBuf,
    allocated: isize,
}

impl Server {
    fn new() -> Self {
        let config = configs().1.with_retry(RetryPolicy::Never).with_max_incoming(100_000);
        let mut endpoint = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(config)));
        endpoint.set_auto_accept(true);
        Self { endpoint, buf: TransmitBuf::new(4), allocated: 0 }
    }

    fn take(&mut self, from: &Attacker, mut packet: Vec<u8>) {
        let before = live();
        self.endpoint
            .handle_batch(NOW, &mut [Datagram { tuple: from.tuple, ecn: None, payload: &mut packet }]);
        while self.endpoint.poll_transmit(NOW, &mut self.buf).is_some() {}
        while self.endpoint.poll_event().is_some() {}
        self.allocated += live() - before;
    }
}

/// Function that returns the CRYPTO frames (offset and data) of the packet with this number.
type Attack = fn(u64) -> Vec<(u64, &'static [u8])>;

/// Beginning of a ClientHello of 7,000 bytes.
const HELLO: [u8; 1_000] = {
    let mut hello = [0; 1_000];
    (hello[0], hello[2], hello[3]) = (1, 0x1b, 0x58);
    hello
};

const ATTACKS: [(&str, Attack); 5] = [
    ("bytes at growing offsets", |packet| {
        (0..100).map(|at| (1 + (packet * 100 + at) * 2, &b"x"[..])).collect()
    }),
    ("bytes far apart", |packet| (0..100).map(|at| (1 + packet + at * 655, &b"x"[..])).collect()),
    ("bytes from the end", |packet| {
        (0..100).map(|at| (8_191_u64.saturating_sub((packet * 100 + at) * 2), &b"x"[..])).collect()
    }),
    ("a long ClientHello", |packet| {
        vec![(packet * 1_000, if packet == 0 { &HELLO[..] } else { &[0; 1_000] })]
    }),
    ("one from behind", |packet| {
        vec![(7_000 - (packet % 8) * 1_000, if packet % 8 == 7 { &HELLO[..] } else { &[0; 1_000] })]
    }),
];

#[test]
fn an_unvalidated_handshake_has_little_memory() {
    for (name, attack) in ATTACKS {
        let mut server = Server::new();
        // A first client makes the endpoint's tables grow; that does not count.
        let mut first = Attacker::new(1);
        let hello = first.packet(&[(0, &HELLO[..1])]);
        server.take(&first, hello);
        let mut attacker = Attacker::new(2);
        let mut most = 0;
        let before = server.allocated;
        let one = attacker.packet(&[(0, &HELLO[..1])]);
        server.take(&attacker, one);
        let fixed = server.allocated - before;
        for packet in 0..60 {
            let packet = attacker.packet(&attack(packet));
            server.take(&attacker, packet);
            most = most.max(server.allocated - before - fixed);
        }
        eprintln!("{name}: {fixed} bytes for a connection, {most} for what its client sends");
        assert!(most <= MOST, "{name}: {most} bytes");
    }
}

/// The handshakes of many clients together stay within [`MAX_UNVALIDATED_MEMORY`].
#[test]
fn all_unvalidated_handshakes_have_bounded_memory() {
    const CLIENTS: u16 = 1_500;
    let mut server = Server::new();
    let mut attackers: Vec<Attacker> = (0..CLIENTS).map(Attacker::new).collect();
    for attacker in &mut attackers {
        let packet = attacker.packet(&[(0, &HELLO[..1])]);
        server.take(attacker, packet);
    }
    let fixed = server.allocated;
    let mut most = 0;
    for round in 0..7 {
        for attacker in &mut attackers {
            let data: &[u8] = if round == 0 { &HELLO } else { &[0; 1_000] };
            let packet = attacker.packet(&[(round * 1_000, data)]);
            server.take(attacker, packet);
            most = most.max(server.allocated - fixed);
        }
    }
    let bound = isize::try_from(MAX_UNVALIDATED_MEMORY).unwrap();
    eprintln!("{most} bytes of {CLIENTS} clients");
    assert!((bound / 2..=bound).contains(&most), "{most} bytes of {CLIENTS} clients");
}
