//! State shared by paths in one packet number space: a pool of connection IDs for each direction, and the
//! path IDs used so far.
//!
//! Connection IDs are announced and retired with the frames of RFC 9000, like those of path 0. An unused
//! connection ID may be used for any path, and belongs to that path from then on. Path IDs have no maximum.
//! The client uses them in order, each end limits the number of its paths, and a server abandons the paths
//! beyond its limit.

use std::collections::VecDeque;

use anabranch_wire::{ConnectionId, PathId, Side, Writer};

use super::PathSet;
use super::echo::Echoes;
use super::{MAX_CLOSING_PATHS, Unopened};
use crate::config::MAX_PATHS;
use crate::datagram_io::FourTuple;
use crate::error::TransportError;
use crate::error::violation;
use crate::path::{LocalCids, MAX_LOCAL_CIDS, Path, Phase, RemoteCids, Status};
use crate::ranges::RangeSet;
use crate::token::Tokens;

/// Maximum number of gaps among the path IDs that a client has used. If there are more, the IDs of the lowest
/// gaps count as used.
pub(crate) const MAX_ID_GAPS: usize = 16;

/// Maximum number of remembered addresses from which the peer has sent challenges. Later packets from such an
/// address are assigned to the challenge's path.
pub(crate) const MAX_PROBED: usize = 8;

/// Connection IDs and path IDs of paths in one packet number space.
#[derive(Debug)]
pub(crate) struct Pool {
    /// All connection IDs that this end has issued.
    pub(crate) local: LocalCids,
    /// Connection IDs of the peer that belong to no path yet, and all that are being retired.
    pub(crate) remote: RemoteCids,
    /// `true` if the peer uses non-empty connection IDs.
    pub(crate) peer_has_cids: bool,
    /// Paths on which this end's connection IDs were used.
    pub(crate) bound: Vec<Bound>,
    /// Addresses from which challenges arrived, each with the challenge's path.
    probed: VecDeque<(FourTuple, PathId)>,
    /// IDs of open and closed paths.
    used: RangeSet,
    /// Maximum number of paths open at the same time.
    max_paths: u32,
    pub(crate) echoes: Echoes,
    /// Retire Prior To value that some paths still have to apply; 0 for none.
    pub(crate) prior_to: u64,
}

/// A connection ID of this end that the peer has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) cid: ConnectionId,
    /// Path on which the ID was used.
    pub(crate) path: PathId,
    /// Evidence that the connection ID belongs to the path.
    pub(crate) certainty: Certainty,
}

/// Evidence that a connection ID belongs to a path, in ascending order: higher evidence corrects lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Certainty {
    /// Addresses only; they may belong to another path by now.
    Guessed,
    /// A response to a challenge of the path arrived with the ID. The peer may have guessed the challenge's
    /// path.
    Answered,
    /// A challenge that names the path arrived with the ID.
    Named,
}

impl Pool {
    /// Takes over the connection IDs of path 0, except the IDs of the peer that it uses.
    pub(crate) fn new(path: &mut Path, max_paths: u32) -> Self {
        let local = std::mem::replace(&mut path.local_cids, LocalCids::none(path.id));
        let cid = path.used_local_cid;
        let bound = (!cid.is_empty()).then_some(Bound { cid, path: path.id, certainty: Certainty::Named });
        let mut used = RangeSet::default();
        used.insert(0..u64::from(path.id.0) + 1);
        Self {
            local,
            remote: path.remote_cids.pool(),
            peer_has_cids: !path.remote_cids.active().is_empty(),
            bound: bound.into_iter().collect(),
            probed: VecDeque::new(),
            used,
            max_paths,
            echoes: Echoes::default(),
            prior_to: 0,
        }
    }

    pub(crate) fn largest_id(&self) -> u64 {
        self.used.max().unwrap_or(0)
    }

    /// Returns the path ID that a client uses next.
    pub(crate) fn next_id(&self) -> Option<PathId> {
        u32::try_from(self.largest_id() + 1).ok().map(PathId)
    }

    /// Returns whether the path ID has never been used.
    pub(crate) fn is_new(&self, id: PathId) -> bool {
        !self.used.contains(id.0.into())
    }

    /// Marks the path ID as used, so that it is never used again.
    pub(crate) fn use_up(&mut self, id: PathId) {
        self.used.insert(u64::from(id.0)..u64::from(id.0) + 1);
        while self.used.len() > MAX_ID_GAPS + 1 {
            let Some(lowest) = self.used.pop_min() else { return };
            let next = self.used.first().map_or(lowest.end, |range| range.start);
            self.used.insert(lowest.start..next);
        }
    }

    /// Checks a path ID in a frame of the peer. Only a client uses new path IDs. It uses them in order, but
    /// its frames may arrive out of order, so a server accepts IDs that are up to [`MAX_PATHS`] ahead.
    pub(crate) fn check(&self, side: Side, id: PathId) -> Result<(), TransportError> {
        let ahead = if side.is_server() { u64::from(MAX_PATHS) } else { 0 };
        if u64::from(id.0) > self.largest_id() + ahead {
            return Err(violation("path ID that is not next"));
        }
        Ok(())
    }

    /// Returns whether a connection ID for another path is available.
    pub(crate) fn has_cid(&self) -> bool {
        !self.peer_has_cids || self.remote.has_unused()
    }

    /// Returns the initial state of a new path, and marks its ID as used.
    pub(crate) fn take(&mut self, id: PathId) -> Unopened {
        self.use_up(id);
        let remote = match self.peer_has_cids {
            true => {
                let mut remote = self.remote.taker(id);
                self.remote.lend(&mut remote);
                remote
            }
            false => RemoteCids::new(id, ConnectionId::EMPTY, 0),
        };
        Unopened { local: LocalCids::none(id), remote, status: Status::new() }
    }

    /// Returns the path to which a connection ID of this end is bound, if the peer has used the ID.
    pub(crate) fn bound(&self, cid: &ConnectionId) -> Option<Bound> {
        self.bound.iter().find(|bound| bound.cid == *cid).copied()
    }

    /// Binds a connection ID of this end to the path on which it was used.
    pub(crate) fn bind(&mut self, cid: ConnectionId, path: PathId, certainty: Certainty) {
        if let Some(bound) = self.bound.iter_mut().find(|bound| bound.cid == cid) {
            *bound = Bound { cid, path, certainty };
        } else if !cid.is_empty() && self.local.contains(&cid).is_some() {
            debug_assert!(self.bound.len() < 2 * MAX_LOCAL_CIDS, "no more than there are connection IDs");
            self.bound.push(Bound { cid, path, certainty });
        }
    }

    /// Returns whether the peer has shown for at least one connection ID of this end that the ID belongs to
    /// the path.
    pub(crate) fn is_certain_of(&self, path: PathId) -> bool {
        self.bound.iter().any(|bound| bound.path == path && bound.certainty > Certainty::Guessed)
    }

    /// Returns the path that was last probed over these addresses.
    pub(crate) fn probed(&self, tuple: &FourTuple) -> Option<PathId> {
        self.probed.iter().rev().find(|(probed, _)| probed == tuple).map(|(_, path)| *path)
    }

    /// Records that a challenge of the path arrived over these addresses.
    pub(crate) fn note_probe(&mut self, tuple: FourTuple, path: PathId) {
        self.probed.retain(|(probed, _)| *probed != tuple);
        if self.probed.len() == MAX_PROBED {
            self.probed.pop_front();
        }
        self.probed.push_back((tuple, path));
    }

    /// Removes the entries of a path whose state is removed.
    pub(crate) fn forget(&mut self, id: PathId) {
        self.bound.retain(|bound| bound.path != id);
        self.probed.retain(|(_, path)| *path != id);
        self.echoes.forget(id);
    }

    /// Retires the connection IDs of an abandoned path. Unlike in the case of a number space for each path,
    /// each ID needs its own frame, because the peer may not know which IDs the path had.
    pub(crate) fn reclaim(&mut self, cids: &mut RemoteCids) {
        self.remote.reclaim(cids);
    }

    /// Returns whether any frame about connection IDs must be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.local.has_pending() || self.remote.has_pending()
    }

    /// Writes pending frames about connection IDs.
    pub(crate) fn write(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        self.local.write(writer, tokens, false);
        self.remote.write(writer, tokens, false);
    }
}

impl PathSet {
    /// Returns whether another path may be opened: fewer paths than this end's maximum are open, and not too
    /// many are closing.
    pub(crate) fn has_room_for_path(&self) -> bool {
        let Some(multipath) = &self.multipath else { return false };
        let Some(pool) = &multipath.pool else { return false };
        let open = self.list.iter().filter(|path| !path.is_abandoned()).count();
        open < pool.max_paths as usize && self.closing_paths() < MAX_CLOSING_PATHS as usize
    }

    /// Assigns an unused connection ID of the peer to a path that has no unused one, if the pool has any.
    pub(crate) fn stock(&mut self, id: PathId) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        if let Some(path) = self.list.get_mut(id)
            && !path.remote_cids.has_unused()
        {
            pool.remote.lend(&mut path.remote_cids);
        }
    }
}

/// Returns whether the server might not know the path yet. A client first announces the path's status
/// together with its challenge, because the status names the path.
pub(crate) fn is_unnamed(path: &Path) -> bool {
    path.phase == Phase::Opening
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn pool() -> Pool {
        Pool {
            local: LocalCids::none(PathId::ZERO),
            remote: RemoteCids::new(PathId::ZERO, ConnectionId::EMPTY, 0),
            peer_has_cids: true,
            bound: Vec::new(),
            probed: VecDeque::new(),
            used: RangeSet::default(),
            max_paths: 4,
            echoes: Echoes::default(),
            prior_to: 0,
        }
    }

    #[test]
    pub(crate) fn gaps_among_path_ids_are_few() {
        let mut pool = pool();
        for id in (0..1_000).map(|n| PathId(2 * n)) {
            pool.use_up(id);
            assert!(pool.used.len() <= MAX_ID_GAPS + 1 && !pool.is_new(id));
        }
        assert!(!pool.is_new(PathId(1)), "the lowest gaps count as used");
        assert!(pool.is_new(PathId(1_997)), "the highest do not");
    }

    #[test]
    pub(crate) fn addresses_of_challenges_are_remembered_up_to_a_bound() {
        let mut pool = pool();
        let tuple = |port: u16| {
            let address = |port| std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
            FourTuple { local: address(443), remote: address(port) }
        };
        for port in 1..=1_000 {
            pool.note_probe(tuple(port), PathId(1));
            pool.note_probe(tuple(1_000), PathId(2));
            assert!(pool.probed.len() <= MAX_PROBED);
        }
        assert_eq!(
            (pool.probed(&tuple(1_000)), pool.probed(&tuple(999))),
            (Some(PathId(2)), Some(PathId(1)))
        );
        assert_eq!(pool.probed(&tuple(1)), None);
    }
}
