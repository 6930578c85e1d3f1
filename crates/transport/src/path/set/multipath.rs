//! State of RFC 10069 that paths share: path IDs, connection IDs of unopened paths, and pending frames.

use anabranch_wire::{ConnectionId, PathId, Side, VarInt};

use super::MAX_CLOSING_PATHS;
use super::again::Again;
use super::alternatives::Alternatives;
use super::copies::Copies;
use super::pool::Pool;
use super::unopened::{Unopened, UnopenedPaths};
use crate::path::{Health, LocalCids, RemoteCids, Status};
use crate::schedule::{Algorithm, AnyScheduler};

/// Number of connection IDs that are issued in advance for each unused path: one to open it, one to follow a
/// NAT rebinding.
pub(crate) const CIDS_AHEAD: usize = 2;

/// Path IDs and connection IDs that this end may use, and pending frames, once both ends have negotiated
/// multipath.
#[derive(Debug)]
pub(crate) struct Multipath {
    /// Largest path ID that the peer may use, as announced to it.
    pub(crate) local_max: PathId,
    /// Largest path ID that this end may use.
    pub(crate) remote_max: PathId,
    /// Connection IDs of the paths up to `local_max` that are neither open nor closed. A path ID that was
    /// removed is never inserted again.
    pub(crate) unopened: UnopenedPaths,
    /// Scheduler that chooses the path of the next packet with data.
    pub(crate) scheduler: AnyScheduler,
    /// Frames to repeat on other paths.
    pub(crate) copies: Copies,
    /// Frames to send a second time.
    pub(crate) again: Again,
    /// Path chosen for acknowledgments that are not sent on their own path: the fastest one, or the last one
    /// used in turn.
    pub(crate) ack_path: Option<PathId>,
    /// Pairs of paths: the newest acknowledgment of the first one must be repeated on the second one. Pairs
    /// with closed paths are removed, so the number of pairs of open paths bounds the list.
    pub(crate) ack_copies: Vec<(PathId, PathId)>,
    /// Path on which messages of flows arrive first, if any were sent.
    pub(crate) home: Option<PathId>,
    /// Weights that the application has set for paths.
    pub(crate) weights: Vec<(PathId, u32)>,
    /// `active_connection_id_limit` of this end and of the peer.
    pub(crate) cid_limits: (u64, u64),
    pub(crate) owed: Owed,
    /// This end's `initial_max_path_id`.
    pub(crate) initial_max: u32,
    /// Health of each path on which there has been traffic.
    pub(crate) health: Vec<Health>,
    /// Further addresses of the server.
    pub(crate) alternatives: Alternatives,
    /// Number of DATAGRAM frames sent and received.
    pub(crate) messages: u64,
    /// `true` if a path could not be opened because a path ID or a connection ID of the peer was missing.
    pub(crate) wants_path: bool,
    /// `true` if states of paths may have changed since they were reported to the application.
    pub(crate) states_changed: bool,
    /// Number of closed path IDs. Each allows one further path.
    pub(crate) closed: u32,
    /// State that paths share in the single packet number space. If it is set, the fields above about IDs and
    /// maxima are not used.
    pub(crate) pool: Option<Pool>,
}

/// A PATH_ABANDON frame that must be sent or is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abandon {
    pub(crate) path: PathId,
    pub(crate) code: VarInt,
    pub(crate) sent: bool,
}

impl Multipath {
    /// Creates the state from the maximum path IDs of the transport parameters. `cid_limits` has the
    /// `active_connection_id_limit` of both ends.
    pub(crate) fn new(scheduler: Algorithm, local_max: u32, remote_max: u32, cid_limits: (u64, u64)) -> Self {
        let mut new = Self {
            local_max: PathId::ZERO,
            remote_max: PathId(remote_max),
            unopened: UnopenedPaths::default(),
            scheduler: AnyScheduler::new(scheduler),
            copies: Copies::default(),
            again: Again::default(),
            ack_path: None,
            ack_copies: Vec::new(),
            home: None,
            weights: Vec::new(),
            cid_limits,
            owed: Owed::default(),
            initial_max: local_max,
            health: Vec::new(),
            alternatives: Alternatives::default(),
            messages: 0,
            wants_path: false,
            states_changed: false,
            closed: 0,
            pool: None,
        };
        new.offer(0);
        new.owed.max_path_id = false; // The transport parameter announces the maximum already.
        new
    }

    /// Raises the largest path ID that the peer may use, so that the peer can open as many paths as this end
    /// is configured for. `closing` paths beyond [`MAX_CLOSING_PATHS`] count against this number.
    pub(crate) fn offer(&mut self, closing: u32) {
        let held_back = closing.saturating_sub(MAX_CLOSING_PATHS);
        let max = self.initial_max.saturating_add(self.closed) - held_back.min(self.closed);
        // The maximum stays below the largest possible ID, so that a next ID always exists.
        while self.local_max.0 < max.min(u32::MAX - 1) {
            self.local_max = PathId(self.local_max.0 + 1);
            self.owed.max_path_id = true;
            let mut local = LocalCids::unopened(self.local_max);
            local.set_limit(self.cid_limits.1.min(CIDS_AHEAD as u64));
            let remote = RemoteCids::unopened(self.local_max, self.cid_limits.0);
            let unopened = Unopened { local, remote, status: Status::new() };
            self.unopened.change().insert(self.local_max, unopened);
        }
    }

    /// Returns whether an acknowledgment must be repeated on `path`.
    pub(crate) fn owes_ack_copy(&self, path: PathId) -> bool {
        self.ack_copies.iter().any(|(_, on)| *on == path)
    }

    /// Returns the largest path ID that both ends allow.
    pub(crate) fn max(&self) -> PathId {
        self.local_max.min(self.remote_max)
    }

    /// Returns the path to open next, if both ends allow another one.
    pub(crate) fn next(&self) -> Option<PathId> {
        self.unopened.keys().next().copied().filter(|id| *id <= self.remote_max)
    }

    /// Returns whether a path ID is unused and the peer has issued a connection ID for it.
    pub(crate) fn has_cid_for_path(&self) -> bool {
        match &self.pool {
            Some(pool) => pool.next_id().is_some() && pool.has_cid(),
            None => self
                .next()
                .and_then(|id| self.unopened.get(&id))
                .is_some_and(|unopened| unopened.remote.has_unused()),
        }
    }

    /// Returns whether the peer's maximum path ID keeps this end from opening a path.
    pub(crate) fn is_blocked(&self) -> bool {
        self.next().is_none() && self.remote_max <= self.local_max
    }

    /// Returns whether `path` is open or closed, and so must not be opened again.
    pub(crate) fn is_used_up(&self, path: PathId) -> bool {
        path <= self.local_max && !self.unopened.contains_key(&path)
    }

    /// Returns whether the peer has issued `cid` for an unopened path other than `path`.
    pub(crate) fn holds_remote_cid(&self, cid: &ConnectionId, path: PathId) -> bool {
        self.unopened.iter().any(|(id, other)| *id != path && other.remote.holds(cid))
    }

    /// Returns the path whose unused local connection IDs contain `cid`. If paths share their IDs, path 0
    /// stands for any path.
    pub(crate) fn by_local_cid(&self, cid: &[u8]) -> Option<PathId> {
        if let Some(pool) = &self.pool {
            return pool.local.contains(cid).map(|_| PathId::ZERO);
        }
        let holds = |unopened: &Unopened| unopened.local.contains(cid).is_some();
        self.unopened.iter().find(|(_, unopened)| holds(unopened)).map(|(path, _)| *path)
    }

    /// Removes the pending copies of acknowledgments for or on a closed path.
    pub(crate) fn forget_ack_copies(&mut self, path: PathId) {
        self.ack_copies.retain(|(of, on)| *of != path && *on != path);
    }

    /// Returns the weight that the application has set for a path; 1 by default.
    pub(crate) fn weight(&self, path: PathId) -> u32 {
        self.weights.iter().find(|(id, _)| *id == path).map_or(1, |(_, weight)| *weight)
    }

    pub(crate) fn set_weight(&mut self, path: PathId, weight: u32) {
        self.weights.retain(|(id, _)| *id != path);
        self.weights.push((path, weight));
    }

    /// Stops scheduling on the path, because nothing more is sent on it.
    pub(crate) fn stop_scheduling(&mut self, path: PathId) {
        self.copies.forget(path);
        self.weights.retain(|(id, _)| *id != path);
    }

    /// Returns the number of paths that could be opened, of PATH_ABANDON frames pending or in flight, and of
    /// connection IDs issued in advance.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        let cids = self.unopened.values().map(|unopened| unopened.local.iter().count()).sum();
        (self.unopened.len(), self.owed.abandons.len(), cids)
    }

    /// Returns the connection IDs that this endpoint has issued for unopened paths, or for all paths in a single number space.
    #[cfg(test)]
    pub(crate) fn unopened_local(&self) -> impl Iterator<Item = &LocalCids> {
        self.unopened.values().map(|unopened| &unopened.local).chain(self.pool.iter().map(|pool| &pool.local))
    }

    /// Returns the number of acknowledgments that must be repeated.
    #[cfg(test)]
    pub(crate) fn held_ack_copies(&self) -> usize {
        self.ack_copies.len()
    }

    /// Removes and returns the initial state of an unopened path. The path cannot be opened again.
    pub(crate) fn take(&mut self, id: PathId) -> Option<Unopened> {
        match &mut self.pool {
            Some(pool) => Some(pool.take(id)),
            None => self.unopened.change().remove(&id),
        }
    }

    /// Returns the connection IDs that this end has issued for an unopened path.
    pub(crate) fn local_cids_mut(&mut self, path: PathId) -> Option<&mut LocalCids> {
        self.unopened.change().get_mut(&path).map(|unopened| &mut unopened.local)
    }

    /// Returns the connection IDs that the peer has issued for an unopened path.
    pub(crate) fn remote_cids_mut(&mut self, path: PathId) -> Option<&mut RemoteCids> {
        self.unopened.change().get_mut(&path).map(|unopened| &mut unopened.remote)
    }

    /// Returns the connection IDs of unopened paths up to `max`.
    pub(crate) fn unopened_mut(&mut self, max: PathId) -> impl Iterator<Item = &mut Unopened> {
        self.unopened.change().range_mut(..=max).map(|(_, unopened)| unopened)
    }
}

/// Returns whether this side opens paths (RFC 10069 §3.1).
pub(crate) fn opens_paths(side: Side) -> bool {
    side.is_client()
}

/// Frames that must be sent to the peer.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// PATH_ABANDON frames that the peer has not acknowledged.
    pub(crate) abandons: Vec<Abandon>,
    pub(crate) max_path_id: bool,
    /// Maximum path ID for a pending PATHS_BLOCKED frame.
    pub(crate) paths_blocked: Option<PathId>,
    /// Path for a pending PATH_CIDS_BLOCKED frame.
    pub(crate) cids_blocked: Option<PathId>,
}
