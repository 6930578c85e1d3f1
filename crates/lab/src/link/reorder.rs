//! Reordering: packets that are overtaken by later ones.

use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Link element that holds a packet back with a given probability, for a random time.
#[derive(Clone, Debug)]
pub struct Reorder {
    probability: f64,
    longest: Duration,
    rng: Rng,
}

impl Reorder {
    /// Creates an element that holds packets back with `probability` (0.0 to 1.0). The time is uniformly
    /// distributed from zero to `longest`.
    pub fn new(probability: f64, longest: Duration) -> Self {
        Self { probability, longest, rng: Seed(0).rng("reorder") }
    }
}

impl Element for Reorder {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        let mut leaves = at;
        if self.rng.chance(self.probability) {
            let longest = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX - 1);
            leaves += Duration::from_nanos(self.rng.between(0, longest));
        }
        next.push(leaves, packet);
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
