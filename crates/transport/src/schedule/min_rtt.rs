//! Choice of the path with the lowest round-trip time, as in most multipath transports.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Scheduler that chooses, among the paths with room, the one with the lowest round-trip time.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }
}
