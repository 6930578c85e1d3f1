//! Independent random loss of packets.

use core::ops::Range;

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Link element that loses each packet with a probability that may change over time.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Loss probabilities. Each is valid from its time until the next one; before the first there is no loss.
    steps: Vec<(Time, f64)>,
    rng: Rng,
}

impl Loss {
    /// Creates an element that always loses packets with `probability` (0.0 to 1.0).
    pub fn new(probability: f64) -> Self {
        Self::steps([(Time::ZERO, probability)])
    }

    /// Creates an element that loses packets with `probability` during `when`.
    pub fn during(probability: f64, when: Range<Time>) -> Self {
        Self::steps([(when.start, probability), (when.end, 0.0)])
    }

    /// Creates an element whose loss probability changes at the given times, which must ascend.
    pub fn steps(steps: impl IntoIterator<Item = (Time, f64)>) -> Self {
        Self { steps: steps.into_iter().collect(), rng: Seed(0).rng("loss") }
    }

    fn probability(&self, at: Time) -> f64 {
        let past = self.steps.partition_point(|(from, _)| *from <= at);
        past.checked_sub(1).map_or(0.0, |index| self.steps[index].1)
    }
}

impl Element for Loss {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        if self.rng.chance(self.probability(at)) {
            next.lose(packet, Lost::Chance);
        } else {
            next.push(at, packet);
        }
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
