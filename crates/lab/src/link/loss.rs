//! Random loss: each packet on its own.

use core::ops::Range;

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Loses each packet with the same probability.
#[derive(Clone, Debug)]
pub struct Loss {
    probability: f64,
    when: Range<Time>,
    rng: Rng,
}

impl Loss {
    /// Loses packets with `probability` (0.0 to 1.0) all the time.
    pub fn new(probability: f64) -> Self {
        Self::during(probability, Time::ZERO..Time::from_nanos(u64::MAX))
    }

    /// Loses packets with `probability` as long as `when` lasts.
    pub fn during(probability: f64, when: Range<Time>) -> Self {
        Self { probability, when, rng: Seed(0).rng("loss") }
    }
}

impl Element for Loss {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        // Drawn for every packet, so that the period does not move later draws.
        if self.rng.chance(self.probability) && self.when.contains(&at) {
            next.lose(packet, Lost::Chance);
        } else {
            next.push(at, packet);
        }
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
