//! Home path, on which the messages of flows arrive first, and the time that messages wait for it.

use std::time::Duration;

use anabranch_wire::PathId;

use super::PathSet;
use crate::path::Path;
use crate::schedule::Patience;

/// Margin by which the home path may be slower than the fastest path before the fastest one becomes the home path: this
/// fraction of the fastest path's delay (1/8) and, below, at least this time. Without a margin, messages would alternate
/// between similar paths, whose round-trip times vary, and arrive out of order.
const MARGIN: u32 = 8;
const MIN_MARGIN: Duration = Duration::from_millis(1);
/// Maximum delay in queues that counts, as a fraction of the minimum round-trip time (1/4). Without a maximum, messages that
/// fill the queue of one path would move the home to another path, fill its queue, and move the home back.
const QUEUE: u32 = 4;

/// Maximum by which a path may be slower than the home path to be near it: this number of halves of the home path's minimum
/// round-trip time. A sender whose window is twice the bandwidth-delay product of the home path (BBR) fills such a path as well.
const NEAR: u32 = 3;
/// Maximum number of bytes that wait before a message whose receiver restores the order, if a path near the home path has room. A
/// sender like BBR, which drains queues, never lets so many wait as would make both paths equally quick. A smaller number would
/// spread the bursts of slow flows.
const BURST: u64 = 16_000;

impl PathSet {
    /// Chooses the home path among those that the scheduler may pick.
    pub(crate) fn review_home(&mut self) {
        let candidates = || self.best().map(|path| (self.one_way(path), path.id));
        let soonest = candidates().min();
        let home = self.multipath.as_ref().and_then(|multipath| multipath.home);
        let kept = candidates().find(|(delay, id)| {
            let limit = |soonest: Duration| soonest + (soonest / MARGIN).max(MIN_MARGIN);
            Some(*id) == home && soonest.is_some_and(|(soonest, _)| *delay <= limit(soonest))
        });
        let home = kept.or(soonest).map(|(_, id)| id);
        if let Some(multipath) = &mut self.multipath {
            multipath.home = home;
        }
    }

    /// Returns whether path `id` is the home path, or whether there is no home path.
    pub(crate) fn is_home(&self, id: PathId) -> bool {
        self.multipath.as_ref().and_then(|multipath| multipath.home).is_none_or(|home| home == id)
    }

    /// Returns the limits within which messages of flows wait for the home path instead of using path `id`: within them, a
    /// message arrives earlier on the home path.
    pub(crate) fn patience(&self, id: PathId) -> Patience {
        let home = self.multipath.as_ref().and_then(|multipath| multipath.home).filter(|home| *home != id);
        let home = home.and_then(|home| self.list.get(home)).filter(|path| path.is_working());
        let (Some(home), Some(path)) = (home, self.list.get(id)) else { return Patience::default() };
        let later = self.one_way(path).saturating_sub(self.one_way(home)).max(MIN_MARGIN);
        let rate = u128::from(home.recovery.delivery_rate());
        let ahead = u64::try_from(rate * later.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX);
        let is_near = later <= home.recovery.rtt().min() * NEAR / 2;
        let ordered = if is_near { ahead.min(BURST) } else { ahead };
        // The time limit matters only if the home path sends nothing: twice the difference of the delays.
        Patience { ahead, ordered, time: 2 * later }
    }

    /// Returns the one-way delay of a packet, like [`PathView::one_way`](crate::schedule::PathView::one_way), but with a limit on
    /// the delay in queues.
    fn one_way(&self, path: &Path) -> Duration {
        let rtt = path.recovery.rtt();
        let queued = rtt.smoothed().saturating_sub(rtt.min()).min(rtt.min() / QUEUE);
        let empty = if rtt.has_sample() { rtt.min() } else { rtt.smoothed() };
        (empty + queued).saturating_sub(self.return_delay(path))
    }
}
