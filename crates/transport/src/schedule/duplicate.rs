//! The scheduler of the first Multipath QUIC (De Coninck and Bonaventure, CoNEXT 2017).

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Scheduler that prefers the lowest round-trip time. A new path is used at once. Until its round-trip time
/// is known, its data is repeated on another path, so that a path worse than expected delays nothing.
/// MAX_DATA and MAX_STREAM_DATA frames are sent on all paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinRttDuplicate;

impl Scheduler for MinRttDuplicate {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = |path: &&PathView| path.has_room();
        if let Some(new) = paths.iter().filter(open).find(|path| !path.has_rtt) {
            let known = paths.iter().filter(|path| path.has_rtt).min_by_key(|path| path.smoothed_rtt);
            return Pick::on(new.id).and_also(known.map(|path| path.id));
        }
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }

    fn pick_control(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let Some(first) = fastest(paths).map(|path| path.id) else { return Pick::wait() };
        Pick::on(first).and_also(paths.iter().map(|path| path.id).filter(|id| *id != first))
    }
}
