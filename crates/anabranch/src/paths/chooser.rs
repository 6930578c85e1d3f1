//! Choice of addresses by the application, instead of rules.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::PathStatus;

/// An application's choice of the addresses that get paths; see
/// [`PathPolicy::choosing`](super::PathPolicy::choosing).
pub trait PathChooser: fmt::Debug + Send + Sync {
    /// Returns the use of an address of an interface; `None` if it gets no path. Called whenever interfaces
    /// change, so it should be fast.
    fn choose(&self, interface: &str, address: IpAddr) -> Option<PathUse>;
}

/// Use of an address for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathUse {
    /// Order of preference, smallest first. If the policy allows fewer paths than there are addresses, the
    /// most preferred ones get them.
    pub preference: usize,
    /// Status of the paths.
    pub status: PathStatus,
    /// Weight for schedulers that distribute data by weight.
    pub weight: u32,
    /// Number of paths from the address, each on its own port: 1 to
    /// [`MAX_PATHS_PER_INTERFACE`](super::MAX_PATHS_PER_INTERFACE).
    pub count: usize,
}

impl PathUse {
    /// Creates the use of an address for one path of weight 1.
    pub fn new(preference: usize, status: PathStatus) -> Self {
        Self { preference, status, weight: 1, count: 1 }
    }
}

/// A chooser in a policy. Two choosers are equal if they are the same object.
#[derive(Clone, Debug)]
pub(super) struct Chooser(pub(super) Arc<dyn PathChooser>);

impl PartialEq for Chooser {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
