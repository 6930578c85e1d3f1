//! Addresses, configurations and hand-made Initial packets for the endpoint's tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_testkit::packets::Initial;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_tls::{DirectionKeys, TAG_LEN};
use anabranch_wire::{ConnectionId, Frame, Frames, PacketKind, PathId, Version, parse_packet};

use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::datagram_io::{Datagram, FourTuple};

pub(super) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);

/// Returns the address of the `n`-th client.
pub(super) fn client(n: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + n)), 50_000)
}

/// Returns the addresses of the `n`-th client, as seen by the server.
pub(super) fn tuple(n: u32) -> FourTuple {
    FourTuple { local: SERVER, remote: client(n) }
}

pub(super) fn datagram<'a>(tuple: FourTuple, payload: &'a mut [u8]) -> Datagram<'a> {
    Datagram { tuple, ecn: None, payload }
}

pub(super) fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

pub(super) fn endpoint_config(seed: u8) -> EndpointConfig {
    EndpointConfig::new([seed; 32])
}

/// Creates configurations of a server and of a client that trusts it. Both draw from this thread's random
/// generator.
pub(super) fn configs() -> (ServerConfig, ClientConfig) {
    seed_thread(1);
    let (client, server) = Trust::new("server.test").pair("test");
    (ServerConfig::new(server), ClientConfig::new(client))
}

pub(super) fn server_with(change: impl FnOnce(&mut ServerConfig)) -> Option<Arc<ServerConfig>> {
    let mut config = configs().0;
    change(&mut config);
    Some(Arc::new(config))
}

/// Returns a client's first Initial of `size` bytes. It contains a PING and is sealed as RFC 9001 requires.
pub(super) fn initial(version: Version, dcid: &ConnectionId, token: &[u8], size: usize) -> Vec<u8> {
    Initial { version, size, ..Initial::new(dcid, token) }.seal()
}

/// Opens an Initial with `keys` and returns the error code of its first frame, a CONNECTION_CLOSE.
pub(super) fn close_code(packet: &[u8], keys: &DirectionKeys) -> u64 {
    let mut packet = packet.to_vec();
    let header = parse_packet(&packet, 8).unwrap();
    assert_eq!((header.kind, header.end), (PacketKind::Initial, packet.len()));
    assert_eq!(header.dcid, Initial::scid());
    let format = header.version.unwrap().format().unwrap();
    let sample = format.sample(&packet, header.kind, header.pn_offset).unwrap();
    let unmasked = format.unmask(&mut packet, header.kind, header.pn_offset, &keys.header.mask(&sample));
    assert!(unmasked.reserved_ok);
    let len = keys.packet.open(PathId::ZERO, 0, unmasked.header_len, &mut packet).unwrap();
    assert_eq!(unmasked.header_len + len + TAG_LEN, packet.len());
    let frames = &packet[unmasked.header_len..][..len];
    match Frames::new(frames, format.direction).next().unwrap().unwrap() {
        Frame::ConnectionClose(close) if !close.application => close.code.get(),
        frame => panic!("{frame:?}"),
    }
}
