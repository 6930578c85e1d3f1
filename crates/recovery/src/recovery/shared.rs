//! What a path is told when its packets share their number space with other paths'.

use anabranch_wire::{SpaceId, Time};

use super::Recovery;
use crate::congestion::Sibling;
use crate::outcome::Outcome;

impl<T: Clone> Recovery<T> {
    /// Orders below are settled for good: what an acknowledgment says of them changes nothing.
    pub fn settled_below(&self, now: Time, space: SpaceId) -> u64 {
        let space = &self.spaces[space as usize];
        let under_way = space.sent.base();
        space.lost.oldest(now).map_or(under_way, |lost| lost.min(under_way))
    }

    /// Packets of `space` that left with ECT(0).
    pub fn marked(&self, space: SpaceId) -> u64 {
        self.ecn.sent(space)
    }

    /// No packet is marked any longer, whatever becomes of the path.
    pub fn disable_ecn(&mut self) {
        self.config.ecn = false;
        self.ecn.restart(false);
    }

    /// Marked packets of this path were acknowledged with counts that are right.
    pub fn confirm_ecn(&mut self) {
        self.ecn.confirm();
    }

    /// More packets were received with CE, and the ACK that says so acknowledged packets of this path, the newest of them
    /// sent at `newest_sent`.
    pub fn on_shared_ce(
        &mut self,
        now: Time,
        newest_sent: Time,
        marks: u64,
        siblings: &[Sibling],
        out: &mut Outcome<T>,
    ) {
        self.stats.ecn_ce += marks;
        self.congestion_event(now, newest_sent, true, siblings, out);
    }
}
