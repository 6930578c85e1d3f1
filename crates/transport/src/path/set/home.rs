//! Path on which the messages of flows arrive first, and the time that they wait for it.

use std::time::Duration;

use anabranch_wire::PathId;

use super::PathSet;
use crate::path::Path;
use crate::schedule::{Patience, rank};

/// Part of the home's delay, and the least time, by which another path must be faster to become the home. Round-trip times of
/// similar paths vary, and messages that alternate between paths arrive in another order.
const MARGIN: u32 = 8;
const MIN_MARGIN: Duration = Duration::from_millis(1);
/// Part of the minimum round-trip time that counts as delay in queues at most. Otherwise messages that fill the queue of a path
/// would be a reason to send even more of them on another one, and in turn.
const QUEUE: u32 = 4;

impl PathSet {
    /// Chooses the path on which messages of flows arrive first, among those that the scheduler may pick.
    pub(crate) fn review_home(&mut self) {
        let best = self.usable().map(|path| rank(path.is_failing, path.is_available())).min();
        let is_best = |path: &&Path| Some(rank(path.is_failing, path.is_available())) == best;
        let candidates = || self.usable().filter(is_best).map(|path| (self.one_way(path), path.id));
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

    /// Returns whether messages of flows arrive first on path `id`, as far as that is known.
    pub(crate) fn is_home(&self, id: PathId) -> bool {
        self.multipath.as_ref().and_then(|multipath| multipath.home).is_none_or(|home| home == id)
    }

    /// Returns which messages of flows path `id` leaves to the home: those that arrive earlier there.
    pub(crate) fn patience(&self, id: PathId) -> Patience {
        let home = self.multipath.as_ref().and_then(|multipath| multipath.home).filter(|home| *home != id);
        let home = home.and_then(|home| self.list.get(home)).filter(|path| path.is_working());
        let (Some(home), Some(path)) = (home, self.list.get(id)) else { return Patience::default() };
        let later = self.one_way(path).saturating_sub(self.one_way(home)).max(MIN_MARGIN);
        let rate = u128::from(home.recovery.delivery_rate());
        let ahead = u64::try_from(rate * later.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX);
        // A message that has waited for so long has waited in vain.
        Patience { ahead, time: 2 * later }
    }

    /// Returns the time for a packet to arrive, like [`PathView::one_way`](crate::schedule::PathView::one_way), but with a limit
    /// on the delay in queues.
    fn one_way(&self, path: &Path) -> Duration {
        let rtt = path.recovery.rtt();
        let queued = rtt.smoothed().saturating_sub(rtt.min()).min(rtt.min() / QUEUE);
        let empty = if rtt.has_sample() { rtt.min() } else { rtt.smoothed() };
        (empty + queued).saturating_sub(self.return_delay(path))
    }
}
