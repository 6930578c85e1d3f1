//! Propagation with the same delay for every packet.

use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;

/// Constant one-way delay.
#[derive(Clone, Copy, Debug)]
pub struct Delay(pub Duration);

impl Element for Delay {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        next.push(at + self.0, packet);
    }
}
