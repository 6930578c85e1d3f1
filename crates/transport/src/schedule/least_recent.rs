//! The path that has rested longest, as the study of 2022 ran its sender.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// Of the paths with room the one that has not been used for longest.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeastRecent;

impl Scheduler for LeastRecent {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        Pick::or_wait(open.min_by_key(|path| path.last_sent).map(|path| path.id), Pick::packet_on)
    }
}
