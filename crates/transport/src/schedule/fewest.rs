//! Choice of the path that has sent the fewest packets, as in PQUIC's multipath plugin.

use anabranch_wire::Time;

use super::{PathView, Pick, Scheduler, Work};

/// Scheduler that chooses, among the paths with room, the one that has sent the fewest packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FewestPackets;

impl Scheduler for FewestPackets {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open = paths.iter().filter(|path| path.has_room());
        Pick::or_wait(open.min_by_key(|path| path.packets_sent).map(|path| path.id), Pick::packet_on)
    }
}
