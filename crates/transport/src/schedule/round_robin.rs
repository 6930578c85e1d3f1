//! Choice of the paths in turn.

use anabranch_wire::{PathId, Time};

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that uses the paths with room in the order of their IDs, one packet each.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundRobin {
    /// The path that was picked last.
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let mut open = paths.iter().filter(|path| path.has_room()).map(|path| path.id);
        let first = open.clone().next();
        let next = open.find(|id| self.last.is_none_or(|last| *id > last)).or(first);
        self.last = next.or(self.last);
        Pick::or_wait(next, Pick::packet_on)
    }
}
