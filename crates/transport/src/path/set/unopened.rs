//! Connection IDs of unopened paths.

use std::collections::BTreeMap;
use std::ops::Deref;

use anabranch_wire::PathId;

use crate::path::{LocalCids, RemoteCids, Status};

/// Connection IDs of a path that is not open.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) local: LocalCids,
    pub(crate) remote: RemoteCids,
    /// Status that the peer has announced for the path.
    pub(crate) status: Status,
}

/// Paths that are neither open nor closed. The result of [`Self::has_pending`] is cached, because every sent
/// packet needs it, but hardly any packet changes it.
#[derive(Debug, Default)]
pub(crate) struct UnopenedPaths {
    paths: BTreeMap<PathId, Unopened>,
    /// `Some(true)` if frames must be sent; `None` if this is unknown since the last change.
    owes: Option<bool>,
}

impl UnopenedPaths {
    /// Returns the paths for modification.
    pub(crate) fn change(&mut self) -> &mut BTreeMap<PathId, Unopened> {
        self.owes = None;
        &mut self.paths
    }

    /// Returns whether frames about the paths' connection IDs must be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.owes.unwrap_or_else(|| self.look())
    }

    /// Computes the cached result of [`Self::has_pending`] if it is unknown.
    pub(crate) fn review(&mut self) {
        if self.owes.is_none() {
            self.owes = Some(self.look());
        }
    }

    pub(crate) fn look(&self) -> bool {
        self.paths.values().any(|unopened| unopened.local.has_pending() || unopened.remote.has_pending())
    }
}

impl Deref for UnopenedPaths {
    type Target = BTreeMap<PathId, Unopened>;

    fn deref(&self) -> &Self::Target {
        &self.paths
    }
}
