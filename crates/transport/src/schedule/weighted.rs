//! Shares that the application chooses.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// The path whose bytes sent are furthest behind its weight. No path is kept waiting for that: once the
/// windows of the others are full, a path may get more than its share. Weight 0 is a path that carries data
/// only when no other has room.
///
/// Shares are given in whole batches: what leaves together costs the host little. With a system call for each
/// packet two paths cost nearly four times as much as one, and with batches of 16 packets still a sixth more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weighted;

impl Scheduler for Weighted {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        let share = |path: &&PathView| match path.weight {
            0 => u128::MAX,
            // Scaled, so that whole numbers tell small differences apart.
            weight => (u128::from(path.bytes_sent) << 32) / u128::from(weight),
        };
        Pick::or_wait(open.min_by_key(share).map(|path| path.id), Pick::on)
    }
}
