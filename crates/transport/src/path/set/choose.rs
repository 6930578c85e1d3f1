//! Choice among a path's siblings: paths with a coupled congestion controller, and paths that replace it.

use anabranch_recovery::{Controller, Sibling};
use anabranch_wire::PathId;
use smallvec::SmallVec;

use super::PathSet;
use super::acks::min_rtt;
use crate::path::Path;

/// State of a path's siblings for its coupled controller, stored inline for up to four siblings.
pub(crate) type Siblings = SmallVec<[Sibling; 4]>;

impl PathSet {
    /// Returns the state of the other working paths that have a round-trip sample, if the controller of path
    /// `id` is coupled; otherwise an empty list.
    #[inline]
    pub(crate) fn siblings(&self, id: PathId) -> Siblings {
        if self.multipath.is_none() || self.list.len() == 1 {
            return Siblings::new();
        }
        let coupled = self.list.get(id).is_some_and(|path| path.recovery.congestion().is_coupled());
        let others = self.list.iter().filter(|path| coupled && path.id != id && path.is_working());
        others.filter(|path| path.recovery.rtt().has_sample()).map(|path| path.recovery.sibling()).collect()
    }

    /// Returns the path for packets that may exceed the congestion window. A working path is preferred to a
    /// failing one, then an available path to a backup, then the lowest smoothed round-trip time.
    pub(crate) fn best_path(&self) -> Option<PathId> {
        self.best_path_by(|path| path.recovery.rtt().smoothed())
    }

    /// Returns the path like [`Self::best_path`], but compares the smallest round-trip times: for small data
    /// that is sent last, past queueing delays do not matter, but a full socket does.
    pub(crate) fn shortest_path(&self) -> Option<PathId> {
        self.best_path_by(|path| (path.is_socket_blocked, min_rtt(path)))
    }

    pub(crate) fn best_path_by<K: Ord>(&self, delay: impl Fn(&Path) -> K) -> Option<PathId> {
        let usable = self.list.iter().filter(|path| path.is_usable() && !path.is_amplification_blocked());
        let rank = |path: &&Path| (path.is_failing, !path.is_available(), delay(path), path.id);
        usable.min_by_key(rank).map(|path| path.id)
    }

    /// Returns the path that sends the acknowledgments of `path` in its place; `None` if `path` sends them
    /// itself. Another path is needed if `path` is abandoned or failing. It is also needed if the peer has
    /// declared `path` a backup, because the peer's packets on it may be unacknowledged.
    pub(crate) fn stand_in(&self, path: &Path) -> Option<PathId> {
        let doubtful = path.is_abandoned() || path.is_failing || !path.status.peer.available;
        if !doubtful || self.multipath.is_none() || self.list.len() == 1 {
            return None;
        }
        let best = self.best_path().filter(|best| *best != path.id)?;
        let better = self.list.get(best).is_some_and(|best| {
            path.is_abandoned() || !best.is_failing && (path.is_failing || best.status.peer.available)
        });
        better.then_some(best)
    }
}
