//! Connection IDs of the paths that are not open yet.

use std::collections::BTreeMap;
use std::ops::Deref;

use anabranch_wire::PathId;

use crate::path::{LocalCids, RemoteCids, Status};

/// Connection IDs of a path that is not open.
#[derive(Debug)]
pub(in crate::connection) struct Unopened {
    pub(in crate::connection) local: LocalCids,
    pub(in crate::connection) remote: RemoteCids,
    /// What the peer has said that the path will be for.
    pub(super) status: Status,
}

/// The paths that are neither open nor gone. Each packet asks whether they owe frames, and next to none changes them.
#[derive(Debug, Default)]
pub(super) struct UnopenedPaths {
    paths: BTreeMap<PathId, Unopened>,
    /// Whether they owe anything, if that is known since the last change.
    owes: Option<bool>,
}

impl UnopenedPaths {
    /// The paths, to be changed.
    pub(super) fn change(&mut self) -> &mut BTreeMap<PathId, Unopened> {
        self.owes = None;
        &mut self.paths
    }

    /// Whether frames about their connection IDs are owed.
    pub(super) fn has_pending(&self) -> bool {
        self.owes.unwrap_or_else(|| self.look())
    }

    /// Looks once what is asked often.
    pub(super) fn review(&mut self) {
        if self.owes.is_none() {
            self.owes = Some(self.look());
        }
    }

    fn look(&self) -> bool {
        self.paths.values().any(|unopened| unopened.local.has_pending() || unopened.remote.has_pending())
    }
}

impl Deref for UnopenedPaths {
    type Target = BTreeMap<PathId, Unopened>;

    fn deref(&self) -> &Self::Target {
        &self.paths
    }
}
