//! Choice of addresses by the program, in place of rules.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::PathStatus;

/// A program's own choice of the addresses that get paths, see
/// [`PathPolicy::choosing`](super::PathPolicy::choosing).
pub trait PathChooser: fmt::Debug + Send + Sync {
    /// Returns the use of an address of an interface; `None` leaves it without paths. Called whenever
    /// interfaces change, so it should not take long.
    fn choose(&self, interface: &str, address: IpAddr) -> Option<PathUse>;
}

/// The use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathUse {
    /// Place in the order of preference, the smallest first: when there may be fewer paths than addresses,
    /// the first get them.
    pub preference: usize,
    /// Use of the paths.
    pub status: PathStatus,
    /// Weight for schedulers that share by weight.
    pub weight: u32,
    /// Number of paths, on ports of their own: 1 to
    /// [`MAX_PATHS_PER_INTERFACE`](super::MAX_PATHS_PER_INTERFACE).
    pub count: usize,
}

impl PathUse {
    /// Creates the use of an address with one path of weight 1.
    pub fn new(preference: usize, status: PathStatus) -> Self {
        Self { preference, status, weight: 1, count: 1 }
    }
}

/// A chooser in a policy; policies with the same one are equal.
#[derive(Clone, Debug)]
pub(super) struct Chooser(pub(super) Arc<dyn PathChooser>);

impl PartialEq for Chooser {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
