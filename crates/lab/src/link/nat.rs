//! Network address translation whose mapping changes, so that the server sees the client's address change.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;

/// NAT mapping that is valid from a certain time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// Time at which the mapping becomes valid.
    pub from: Time,
    /// Public IP address; `None` keeps the private one.
    pub ip: Option<IpAddr>,
    /// Number that is added to the private port, modulo 2^16.
    pub port_shift: u16,
}

/// Direction of the packets that pass one half of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// From the private to the public side: the source is translated.
    Outbound,
    /// From the public to the private side: the destination is translated back.
    Inbound,
}

/// Half of a NAT in front of one host. Both halves share the mappings. Before the first rebinding it
/// translates nothing.
#[derive(Clone, Debug)]
pub struct Nat {
    side: Side,
    mappings: Arc<Mutex<Mappings>>,
}

#[derive(Debug)]
struct Mappings {
    inside: IpAddr,
    /// Future rebindings, in descending order of time.
    coming: Vec<Rebinding>,
    current: Option<Rebinding>,
    /// Public addresses from which the host has sent since the current rebinding, with their private ports.
    active: BTreeMap<SocketAddr, u16>,
}

impl Nat {
    /// Creates the outbound and the inbound half of a NAT in front of `inside`, whose mapping changes at
    /// `rebindings`.
    pub fn pair(inside: IpAddr, rebindings: &[Rebinding]) -> [Self; 2] {
        let active = BTreeMap::new();
        let mut mappings = Mappings { inside, coming: rebindings.to_vec(), current: None, active };
        mappings.sort();
        let mappings = Arc::new(Mutex::new(mappings));
        [Side::Outbound, Side::Inbound].map(|side| Self { side, mappings: Arc::clone(&mappings) })
    }

    /// Adds a rebinding to both halves.
    pub fn rebind(&self, rebinding: Rebinding) {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.coming.push(rebinding);
        mappings.sort();
    }
}

impl Mappings {
    fn sort(&mut self) {
        self.coming.sort_by_key(|rebinding| core::cmp::Reverse(rebinding.from));
    }

    fn advance(&mut self, now: Time) {
        while let Some(next) = self.coming.pop_if(|next| next.from <= now) {
            self.current = Some(next);
            self.active.clear();
        }
    }

    fn outside(&mut self, port: u16) -> SocketAddr {
        let outside = match self.current {
            Some(now) => SocketAddr::new(now.ip.unwrap_or(self.inside), port.wrapping_add(now.port_shift)),
            None => SocketAddr::new(self.inside, port),
        };
        self.active.insert(outside, port);
        outside
    }
}

impl Element for Nat {
    fn push(&mut self, at: Time, mut packet: Packet, next: &mut Next<'_>) {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.advance(at);
        match self.side {
            Side::Outbound => packet.source = mappings.outside(packet.source.port()),
            Side::Inbound => match mappings.active.get(&packet.destination) {
                Some(&port) => packet.destination = SocketAddr::new(mappings.inside, port),
                None => {
                    drop(mappings);
                    return next.lose(packet, Lost::Unmapped);
                }
            },
        }
        drop(mappings);
        next.push(at, packet);
    }
}
