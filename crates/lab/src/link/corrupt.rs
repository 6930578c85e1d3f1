//! Packet corruption that the UDP checksum does not detect.

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Maximum number of bits flipped in a damaged packet.
const MAX_FLIPS: u64 = 4;

/// Link element that flips one to four bits of a packet's payload with a given probability.
#[derive(Clone, Debug)]
pub struct Corrupt {
    probability: f64,
    rng: Rng,
}

impl Corrupt {
    /// Creates an element that damages packets with `probability` (0.0 to 1.0).
    pub fn new(probability: f64) -> Self {
        Self { probability, rng: Seed(0).rng("corrupt") }
    }
}

impl Element for Corrupt {
    fn push(&mut self, at: Time, mut packet: Packet, next: &mut Next<'_>) {
        if self.rng.chance(self.probability) && !packet.payload.is_empty() {
            let bits = packet.payload.len() as u64 * 8;
            for _ in 0..self.rng.between(1, MAX_FLIPS) {
                let bit = self.rng.below(bits);
                packet.payload[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        next.push(at, packet);
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
