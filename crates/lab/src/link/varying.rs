//! Propagation whose time changes, as that of somebody who moves.

use core::time::Duration;

use anabranch_wire::Time;

use super::{Element, Next};
use crate::packet::Packet;

/// A one-way delay that changes at given times. Packets stay in order: where the delay falls, one that would
/// overtake another arrives with it.
#[derive(Clone, Debug)]
pub struct VaryingDelay {
    /// Each holds from its time until the next one; before the first there is no delay.
    steps: Vec<(Time, Duration)>,
    /// Time at which the latest packet so far leaves.
    last: Time,
}

impl VaryingDelay {
    /// Delays that begin at the given times, which must ascend.
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
