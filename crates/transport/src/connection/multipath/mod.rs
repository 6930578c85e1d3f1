//! Several paths at once (RFC 10069): path identifiers, the connection IDs of paths still to come, and what is owed.

mod abandon;
mod frames;
mod open;
mod schedule;
mod send;
mod status;

use std::collections::BTreeMap;

use anabranch_wire::{PathId, Side};

pub use self::open::OpenPathError;
pub(super) use self::schedule::Tried;
use crate::path::{LocalCids, RemoteCids};

/// Connection IDs of each unused path that are issued ahead: one to open it with, one to follow a rebinding with.
pub(super) const CIDS_AHEAD: usize = 2;

/// What this end may use and owes, once both ends have said that they speak multipath.
#[derive(Debug)]
pub(super) struct Multipath {
    /// Largest path ID that the peer may use, as it was told.
    local_max: PathId,
    /// Largest path ID that this end may use.
    remote_max: PathId,
    /// The next path to be opened; IDs below are open or gone, and are never used again.
    next: PathId,
    /// Connection IDs of paths from `next` on.
    unopened: BTreeMap<PathId, Unopened>,
    /// PATH_ABANDON frames that the peer has to get.
    abandons: Vec<Abandon>,
    owes_max_path_id: bool,
    /// What a PATHS_BLOCKED is to name.
    paths_blocked: Option<PathId>,
    /// What PATH_CIDS_BLOCKED frames are to name.
    cids_blocked: Option<PathId>,
    /// Paths that the peer has been told of or has told of as abandoned.
    closed: u32,
}

/// Connection IDs of a path that is not open.
#[derive(Debug)]
pub(super) struct Unopened {
    pub(super) local: LocalCids,
    pub(super) remote: RemoteCids,
}

/// A PATH_ABANDON frame that is owed or under way.
#[derive(Clone, Copy, Debug)]
struct Abandon {
    path: PathId,
    code: u64,
    sent: bool,
}

impl Multipath {
    pub(super) fn new(local_max: PathId, remote_max: PathId) -> Self {
        Self {
            local_max,
            remote_max,
            next: PathId(1),
            unopened: BTreeMap::new(),
            abandons: Vec::new(),
            owes_max_path_id: false,
            paths_blocked: None,
            cids_blocked: None,
            closed: 0,
        }
    }

    /// Largest path ID that both ends allow.
    fn max(&self) -> PathId {
        self.local_max.min(self.remote_max)
    }

    /// Whether `path` was open and is gone for good.
    pub(super) fn is_used_up(&self, path: PathId) -> bool {
        path < self.next
    }

    /// The path whose unused local connection IDs hold `cid`.
    pub(super) fn by_local_cid(&self, cid: &[u8]) -> Option<PathId> {
        let holds = |unopened: &Unopened| unopened.local.contains(cid).is_some();
        self.unopened.iter().find(|(_, unopened)| holds(unopened)).map(|(path, _)| *path)
    }

    /// Connection IDs that this end has issued for a path that is not open.
    pub(super) fn local_cids_mut(&mut self, path: PathId) -> Option<&mut LocalCids> {
        self.unopened.get_mut(&path).map(|unopened| &mut unopened.local)
    }

    /// The connection IDs of paths up to `max` that are not open.
    pub(super) fn unopened_mut(&mut self, max: PathId) -> impl Iterator<Item = &mut Unopened> {
        self.unopened.range_mut(..=max).map(|(_, unopened)| unopened)
    }

    /// A place for every path ID that the peer may use.
    fn prepare(&mut self, local_limit: u64, remote_limit: u64) {
        for id in self.next.0..=self.local_max.0 {
            let path = PathId(id);
            self.unopened.entry(path).or_insert_with(|| {
                let mut local = LocalCids::unopened(path);
                local.set_limit(remote_limit.min(CIDS_AHEAD as u64));
                Unopened { local, remote: RemoteCids::unopened(path, local_limit) }
            });
        }
    }
}

/// Which end opens paths (RFC 10069 §3.1).
pub(super) fn opens_paths(side: Side) -> bool {
    side.is_client()
}
