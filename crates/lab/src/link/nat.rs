//! Network address translation whose mapping changes: what a server sees as the client's address moves under it.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;

/// The mapping that holds from a certain time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// When it begins.
    pub from: Time,
    /// Outside IP address; `None` keeps the inside one.
    pub ip: Option<IpAddr>,
    /// Added to the inside port, modulo 2^16.
    pub port_shift: u16,
}

/// Which way packets go through this half of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatSide {
    /// From inside to outside: the source is translated.
    Outbound,
    /// From outside to inside: the destination is translated back. Packets to an earlier mapping are lost.
    Inbound,
}

/// A NAT in front of one host. Before the first rebinding it translates nothing.
#[derive(Clone, Debug)]
pub struct Nat {
    side: NatSide,
    inside: IpAddr,
    rebindings: Vec<Rebinding>,
}

impl Nat {
    /// The `side` half of a NAT in front of `inside`; `rebindings` ascend in time.
    pub fn new(side: NatSide, inside: IpAddr, rebindings: Vec<Rebinding>) -> Self {
        Self { side, inside, rebindings }
    }

    /// The outside address of `inside`'s `port` at `at`.
    fn outside(&self, at: Time, port: u16) -> SocketAddr {
        match self.rebindings.iter().rev().find(|rebinding| rebinding.from <= at) {
            Some(now) => SocketAddr::new(now.ip.unwrap_or(self.inside), port.wrapping_add(now.port_shift)),
            None => SocketAddr::new(self.inside, port),
        }
    }

    /// The port of `inside` that has the outside address `outside` at `at`.
    fn inside_port(&self, at: Time, outside: SocketAddr) -> Option<u16> {
        let shift = self.outside(at, 0).port();
        let port = outside.port().wrapping_sub(shift);
        (self.outside(at, port) == outside).then_some(port)
    }
}

impl Element for Nat {
    fn push(&mut self, at: Time, mut packet: Packet, next: &mut Next<'_>) {
        match self.side {
            NatSide::Outbound => packet.source = self.outside(at, packet.source.port()),
            NatSide::Inbound => match self.inside_port(at, packet.destination) {
                Some(port) => packet.destination = SocketAddr::new(self.inside, port),
                None => return next.lose(packet, Lost::Unmapped),
            },
        }
        next.push(at, packet);
    }
}
