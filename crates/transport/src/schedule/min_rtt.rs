//! The lowest round-trip time first, as most multipath transports do it.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// The path with the lowest round-trip time whose window has room.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinRtt;

impl Scheduler for MinRtt {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }
}
