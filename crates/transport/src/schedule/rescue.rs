//! Choice of the fastest path for lost data and acknowledgments.

use anabranch_wire::{PathId, Time};

use super::{PathView, Pick, Scheduler, Work, fastest};

/// Scheduler that sends new data like `min-rtt`, but lost data and acknowledgments on the fastest path only.
///
/// A lost packet blocks its stream at the receiver. Lost data therefore waits for room on the fastest path,
/// unless the slow path would still deliver it sooner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rescue;

impl Scheduler for Rescue {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }

    fn pick_repeated(&mut self, _: Time, work: &Work, paths: &[PathView]) -> Option<Pick> {
        let open = fastest(paths)?;
        // A full window has room within one round trip; the packet then arrives after the one-way time.
        let later = |best: &PathView| open.one_way() > best.smoothed_rtt + best.one_way();
        Some(if work.awaited(open, paths).is_some_and(later) { Pick::wait() } else { Pick::on(open.id) })
    }

    fn routes_acks(&self) -> bool {
        true
    }

    fn pick_ack(&self, _: PathId, paths: &[PathView]) -> Option<PathId> {
        let measured = paths.iter().filter(|path| path.has_rtt);
        measured.min_by_key(|path| path.min_rtt).map(|path| path.id)
    }
}
