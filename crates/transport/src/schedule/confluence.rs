//! Our own default: what is sent together arrives together.
//!
//! Paths of very different speed waste bandwidth at the end of every transfer: the slow path still carries
//! its last packets when the fast one has long been done. Two rules avoid that. A slow path is left alone
//! once the faster ones would deliver all that waits before its next packet arrived. And a path that has
//! nothing left to send repeats what is under way on a slower one, the packets that would arrive last first,
//! as long as the repetition overtakes the original; so both paths finish at the same time whatever was
//! misjudged before (the reinjection that XLINK, SIGCOMM 2021, argues for).

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// The earliest arrival first, with the blocking tail repeated.
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

/// Returns whether the paths faster than `slow`, whose windows are full now, deliver `queued` bytes before
/// one more packet on `slow` would arrive.
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
