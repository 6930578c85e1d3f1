//! Delay that differs from packet to packet, as in radio networks and other shared media.

use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Additional delay of each packet, uniformly distributed from zero to a maximum. Packets stay in order: one
/// that would overtake another arrives together with it.
#[derive(Clone, Debug)]
pub struct Jitter {
    longest: Duration,
    /// Latest time at which any packet so far leaves the element.
    last: Time,
    rng: Rng,
}

impl Jitter {
    /// Creates an element that delays packets by up to `longest`.
    pub fn new(longest: Duration) -> Self {
        Self { longest, last: Time::ZERO, rng: Seed(0).rng("jitter") }
    }
}

impl Element for Jitter {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        let longest = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX - 1);
        let leaves = at + Duration::from_nanos(self.rng.between(0, longest));
        self.last = self.last.max(leaves);
        next.push(self.last, packet);
    }

    fn seed(&mut self, rng: Rng) {
        self.rng = rng;
    }
}
