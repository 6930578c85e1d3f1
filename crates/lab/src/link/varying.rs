//! Propagation delay that changes over time, as for a moving host.

use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;

/// One-way delay that changes at given times. Packets stay in order: if the delay falls, a packet that would
/// overtake another arrives together with it.
#[derive(Clone, Debug)]
pub struct VaryingDelay {
    /// Delays. Each is valid from its time until the next one; before the first the delay is zero.
    steps: Vec<(Time, Duration)>,
    /// Latest time at which any packet so far leaves the element.
    last: Time,
}

impl VaryingDelay {
    /// Creates a delay that changes at the given times, which must ascend.
    pub fn steps(steps: impl IntoIterator<Item = (Time, Duration)>) -> Self {
        Self { steps: steps.into_iter().collect(), last: Time::ZERO }
    }

    fn delay(&self, at: Time) -> Duration {
        let past = self.steps.partition_point(|(from, _)| *from <= at);
        past.checked_sub(1).map_or(Duration::ZERO, |index| self.steps[index].1)
    }
}

impl Element for VaryingDelay {
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
        self.last = self.last.max(at + self.delay(at));
        next.push(self.last, packet);
    }
}
