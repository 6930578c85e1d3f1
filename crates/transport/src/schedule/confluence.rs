//! Default scheduler, designed for this project: all paths finish a transfer at the same time.
//!
//! Paths of very different speed waste bandwidth at the end of every transfer: the slow path still carries
//! its last packets long after the fast one is done. Two rules avoid that. First, a slow path is not used if
//! the faster ones would deliver all waiting data before the slow path's next packet arrived. Second, a path
//! with nothing left to send repeats data in flight on a slower one, if the repetition overtakes the
//! original. It begins with the packets that would arrive last. Both paths therefore finish at the same time,
//! even after misjudgments. (XLINK, SIGCOMM 2021, argues for such reinjection.)

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that sends on the path on which data arrives first, and repeats on faster paths the last data of
/// a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confluence;

impl Scheduler for Confluence {
    fn pick(&mut self, _: Time, work: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        let Some(first) = open.min_by_key(|path| path.one_way()) else { return Pick::wait() };
        if faster_suffice(first, work.left(), paths) { Pick::wait() } else { Pick::on(first.id) }
    }

    fn reinjects(&self, idle: &PathView, busy: &PathView) -> bool {
        idle.has_rtt && (busy.one_way() > idle.one_way() || !busy.has_rtt)
    }
}

/// Returns whether the paths that are faster than `slow` deliver `queued` bytes before a packet sent now on
/// `slow` would arrive. The windows of these faster paths are full now.
fn faster_suffice(slow: &PathView, queued: u64, paths: &[PathView]) -> bool {
    let arrival = slow.one_way();
    let faster = paths.iter().filter(|path| path.id != slow.id && path.has_rtt && path.one_way() < arrival);
    let delivered: u128 = faster
        .map(|path| {
            let head_start = arrival - path.one_way();
            u128::from(path.rate()) * head_start.as_nanos() / 1_000_000_000
        })
        .sum();
    delivered > u128::from(queued)
}
