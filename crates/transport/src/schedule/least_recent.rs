//! Choice of the path that has been unused for longest, as the sender of the 2022 study did.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that chooses, among the paths with room, the one that has been unused for longest.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeastRecent;

impl Scheduler for LeastRecent {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        Pick::or_wait(open.min_by_key(|path| path.last_sent).map(|path| path.id), Pick::packet_on)
    }
}
