//! Transmission of all stream data on every path, for the lowest latency at any cost.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Scheduler that sends on the fastest path with room, and copies of the same stream data on all others.
/// Datagrams are sent once, and so are control frames other than MAX_DATA and MAX_STREAM_DATA.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redundant;

impl Scheduler for Redundant {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let Some(first) = fastest(paths).map(|path| path.id) else { return Pick::wait() };
        Pick::on(first).and_also(paths.iter().map(|path| path.id).filter(|id| *id != first))
    }
}
