//! Which path the next packet with data takes.
//!
//! A [`Scheduler`] sees read-only views of the paths that may carry data and says which one does. It is asked once for a
//! batch; what only one path can carry (acknowledgments, probes, challenges) leaves without asking it.

mod min_rtt;
mod round_robin;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::{PathId, Time};

use self::min_rtt::MinRtt;
use self::round_robin::RoundRobin;

/// A path as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Its identifier.
    pub id: PathId,
    /// Whether both ends want it used like others; a backup carries data only if no other path is there.
    pub is_available: bool,
    /// Whether the peer has been silent on it for longer than it should.
    pub is_failing: bool,
    /// Smoothed round-trip time; an assumption before the first sample.
    pub smoothed_rtt: Duration,
    /// Whether there has been a sample.
    pub has_rtt: bool,
    /// Bytes that the congestion window has room for.
    pub room: u64,
    /// Congestion window in bytes.
    pub window: u64,
}

impl PathView {
    /// Whether a full packet fits the window.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }
}

/// Decides which path carries data.
pub trait Scheduler {
    /// One of `paths`, which are the best of their kind: available ones, or backups if there are none, or failing ones if
    /// nothing else is left. `None` waits until something changes.
    fn pick(&mut self, now: Time, paths: &[PathView]) -> Option<PathId>;
}

/// Lists every scheduler once.
macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $name:literal;)+) => {
        /// Which scheduler a connection uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm { $($(#[$doc])* $variant,)+ }

        impl Algorithm {
            /// The names [`FromStr`] knows.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The algorithm's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl FromStr for Algorithm {
            type Err = UnknownAlgorithm;

            fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
                match name { $($name => Ok(Self::$variant),)+ _ => Err(UnknownAlgorithm) }
            }
        }

        /// The scheduler of a connection.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyScheduler { $($variant($type),)+ }

        impl AnyScheduler {
            pub(crate) fn new(algorithm: Algorithm) -> Self {
                match algorithm { $(Algorithm::$variant => Self::$variant(<$type>::default()),)+ }
            }
        }

        impl Scheduler for AnyScheduler {
            fn pick(&mut self, now: Time, paths: &[PathView]) -> Option<PathId> {
                match self { $(Self::$variant(inner) => inner.pick(now, paths),)+ }
            }
        }
    };
}

registry! {
    /// The path with the lowest round-trip time whose window has room.
    MinRtt(MinRtt) = "min-rtt";
    /// Paths whose windows have room, one after the other.
    RoundRobin(RoundRobin) = "round-robin";
}

/// No scheduler has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scheduler: use one of {}", Algorithm::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// The paths that come into question: available ones that work, else backups that work, else whatever is there.
pub(crate) fn candidates(paths: &mut Vec<PathView>) {
    let rank = |path: &PathView| (path.is_failing, !path.is_available);
    if let Some(best) = paths.iter().map(rank).min() {
        paths.retain(|path| rank(path) == best);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: u32, rtt: u64, room: u64) -> PathView {
        PathView {
            id: PathId(id),
            is_available: true,
            is_failing: false,
            smoothed_rtt: Duration::from_millis(rtt),
            has_rtt: true,
            room,
            window: 20_000,
        }
    }

    fn pick(algorithm: Algorithm, paths: &[PathView]) -> Option<u32> {
        AnyScheduler::new(algorithm).pick(Time::ZERO, paths).map(|path| path.0)
    }

    #[test]
    fn names_lead_back() {
        for name in Algorithm::NAMES {
            assert_eq!(name.parse::<Algorithm>().unwrap().name(), *name);
        }
        assert_eq!("fastest".parse::<Algorithm>(), Err(UnknownAlgorithm));
    }

    #[test]
    fn the_fastest_path_with_room_comes_first() {
        let paths = [view(0, 30, 5_000), view(1, 10, 0), view(2, 20, 1_400)];
        assert_eq!(pick(Algorithm::MinRtt, &paths), Some(2));
        assert_eq!(pick(Algorithm::MinRtt, &paths[..2]), Some(0));
        assert_eq!(pick(Algorithm::MinRtt, &paths[1..2]), None);
    }

    #[test]
    fn paths_take_turns() {
        let paths = [view(0, 30, 5_000), view(1, 10, 5_000), view(2, 20, 0), view(3, 9, 1)];
        let mut scheduler = AnyScheduler::new(Algorithm::RoundRobin);
        let order: Vec<_> = (0..5).map(|_| scheduler.pick(Time::ZERO, &paths).unwrap().0).collect();
        assert_eq!(order, [0, 1, 3, 0, 1]);
    }

    #[test]
    fn backups_and_failing_paths_are_for_when_there_is_nothing_else() {
        let (good, mut backup, mut failing) = (view(0, 90, 0), view(1, 10, 9_000), view(2, 1, 9_000));
        backup.is_available = false;
        failing.is_failing = true;
        for (mut paths, expected) in [
            (vec![good, backup, failing], vec![0]),
            (vec![backup, failing], vec![1]),
            (vec![failing], vec![2]),
            (vec![], vec![]),
        ] {
            candidates(&mut paths);
            assert_eq!(paths.iter().map(|path| path.id.0).collect::<Vec<_>>(), expected);
        }
    }
}
