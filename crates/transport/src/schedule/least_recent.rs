//! Choice of the path that has been unused for longest, as the sender of the 2022 study did.

use anabranch_wire::{PathId, Time};
use smallvec::SmallVec;

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that chooses, among the paths with room, the one that has been unused for longest.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeastRecent {
    /// Paths in the order of their last picks, the last one at the end. Packets of the same instant are in this order.
    picked: SmallVec<[PathId; 4]>,
}

impl Scheduler for LeastRecent {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let place = |id| self.picked.iter().position(|picked| *picked == id);
        let open = paths.iter().filter(|path| path.has_room());
        let next = open.min_by_key(|path| (path.last_sent, place(path.id))).map(|path| path.id);
        if let Some(id) = next {
            self.picked.retain(|picked| *picked != id && paths.iter().any(|path| path.id == *picked));
            self.picked.push(id);
        }
        Pick::or_wait(next, Pick::packet_on)
    }
}
