//! Packets that arrive twice.

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Link element that delivers a packet twice with a given probability.
#[derive(Clone, Debug)]
pub struct Duplicate {
    probability: f64,
    rng: Rng,
}

impl Duplicate {
    /// Creates an element that duplicates packets with `probability` (0.0 to 1.0).
    pub fn new(probability: f64) -> Self {
        Self { probability, rng: Seed(0).rng("duplicate") }
    }
}

impl Element for Duplicate {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        if self.rng.chance(self.probability) {
            let copy = next.copy(&packet);
            next.push(at, copy);
        }
        next.push(at, packet);
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
