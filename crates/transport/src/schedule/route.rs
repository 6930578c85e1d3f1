//! Preferences of the application for the paths of a stream or datagram.

use std::time::Duration;

use anabranch_wire::PathId;
use smallvec::SmallVec;

/// Paths that may carry a stream's data or a datagram.
///
/// A route is a preference among working paths. If no working path satisfies it, any other path is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// Path that the scheduler picks.
    #[default]
    Any,
    /// This path only.
    Only(PathId),
    /// Any path but this one.
    Avoid(PathId),
}

/// Kinds of stream data that a packet may carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// `true` for data sent for the first time, including datagrams.
    pub(crate) new: bool,
    /// `true` for lost data.
    pub(crate) repeated: bool,
}

impl Kinds {
    /// New and lost data.
    pub(crate) const ALL: Self = Self { new: true, repeated: true };

    /// Returns whether new or lost data may be carried.
    pub(crate) fn any(self) -> bool {
        self.new || self.repeated
    }
}

/// A working path, and the data that it may carry.
#[derive(Clone, Debug)]
pub(crate) struct Carrier {
    pub(crate) path: PathId,
    /// All working paths; empty if no data has a route.
    pub(crate) working: SmallVec<[PathId; 4]>,
    /// Kinds of stream data that the scheduler sends on this path.
    pub(crate) kinds: Kinds,
    /// Reason for a message of a flow to wait for a faster path.
    pub(crate) patience: Patience,
}

/// Messages of flows that a path leaves to a faster one. By default it leaves none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Number of bytes that wait before a message if it would arrive on both paths at the same time.
    pub(crate) ahead: u64,
    /// The same number for messages whose receiver restores their order; at most `ahead`.
    pub(crate) ordered: u64,
    /// Time after which a message no longer waits.
    pub(crate) time: Duration,
}

impl Carrier {
    /// Returns whether data with this route may be sent on this path.
    pub(crate) fn carries(&self, route: Route) -> bool {
        match route {
            Route::Any => true,
            Route::Only(path) => path == self.path || !self.working.contains(&path),
            Route::Avoid(path) => path != self.path || self.working.iter().all(|other| *other == path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_hold_as_long_as_the_paths_work() {
        let [a, b, gone] = [0, 1, 2].map(PathId);
        let carrier = |path, working: &[PathId]| Carrier {
            path,
            working: working.into(),
            kinds: Kinds::ALL,
            patience: Patience::default(),
        };
        let both = [a, b];
        assert!(carrier(a, &both).carries(Route::Any));
        assert!(carrier(a, &both).carries(Route::Only(a)) && !carrier(a, &both).carries(Route::Only(b)));
        assert!(carrier(a, &both).carries(Route::Only(gone)));
        assert!(!carrier(a, &both).carries(Route::Avoid(a)) && carrier(a, &both).carries(Route::Avoid(b)));
        assert!(carrier(a, &[a]).carries(Route::Avoid(a)), "better than not at all");
        assert!(!carrier(a, &[b]).carries(Route::Only(b)));
    }
}
