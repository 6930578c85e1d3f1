//! Choice of the paths in proportion to the weights that the application sets.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that chooses the path that has sent the fewest bytes in proportion to its weight. No path waits
/// for its share: when the windows of the others are full, a path may get more. A path of weight 0 carries
/// data only when no other path has room.
///
/// Shares are balanced by whole batches, because packets sent in one system call cost the host little. With a
/// system call for each packet, two paths cost the host nearly four times as much as one path, and with
/// batches of 16 packets still a sixth more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weighted;

impl Scheduler for Weighted {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        let share = |path: &&PathView| match path.weight {
            0 => u128::MAX,
            // Scaled, so that integer division keeps small differences.
            weight => (u128::from(path.bytes_sent) << 32) / u128::from(weight),
        };
        Pick::or_wait(open.min_by_key(share).map(|path| path.id), Pick::on)
    }
}
