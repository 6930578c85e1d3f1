//! Damage that UDP's checksum does not notice.

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Bits flipped in a damaged packet at most.
const MAX_FLIPS: u64 = 4;

/// Flips one to four bits of a packet's payload with the given probability.
#[derive(Clone, Debug)]
pub struct Corrupt {
    probability: f64,
    rng: Rng,
}

impl Corrupt {
    /// Damages packets with `probability` (0.0 to 1.0).
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
