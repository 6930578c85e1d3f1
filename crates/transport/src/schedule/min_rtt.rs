//! The lowest round-trip time first, as most multipath transports do it.

use anabranch_wire::{PathId, Time};

use super::{PathView, Scheduler};

/// The path with the lowest round-trip time whose window has room.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(&mut self, _: Time, paths: &[PathView]) -> Option<PathId> {
        paths.iter().filter(|path| path.has_room()).min_by_key(|path| path.smoothed_rtt).map(|path| path.id)
    }
}
