//! Maximum datagram size of a link.

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;

/// Link element that drops datagrams whose UDP payload is larger than this many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Mtu(pub usize);

impl Element for Mtu {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        if packet.payload.len() > self.0 {
            next.lose(packet, Lost::TooLarge);
        } else {
            next.push(at, packet);
        }
    }
}
