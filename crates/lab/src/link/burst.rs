//! Burst loss after Gilbert and Elliott: a link is in a good or a bad state, which may change with each
//! packet.

use anabranch_wire::Time;

use super::{Element, Lost, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Gilbert–Elliott loss model. All values are probabilities per packet.
#[derive(Clone, Debug)]
pub struct BurstLoss {
    to_bad: f64,
    to_good: f64,
    loss_good: f64,
    loss_bad: f64,
    bad: bool,
    rng: Rng,
}

impl BurstLoss {
    /// Creates a link in the good state. It turns bad with probability `to_bad` and good again with
    /// `to_good`. A packet is lost with probability `loss_good` or `loss_bad`, depending on the state.
    pub fn new(to_bad: f64, to_good: f64, loss_good: f64, loss_bad: f64) -> Self {
        Self { to_bad, to_good, loss_good, loss_bad, bad: false, rng: Seed(0).rng("burst") }
    }

    /// Returns the long-run share of lost packets.
    pub fn stationary_loss(&self) -> f64 {
        let bad = self.to_bad / (self.to_bad + self.to_good);
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }
}

impl Element for BurstLoss {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        let change = if self.bad { self.to_good } else { self.to_bad };
        self.bad ^= self.rng.chance(change);
        let loss = if self.bad { self.loss_bad } else { self.loss_good };
        if self.rng.chance(loss) {
            next.lose(packet, Lost::Chance);
        } else {
            next.push(at, packet);
        }
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
