//! What paths share that share their packet numbers: one pool of connection IDs in each direction, and the order of path IDs.
//!
//! Connection IDs are announced and retired with the frames of RFC 9000, as path 0's. Any that is unused may be taken for any
//! path; from then on it belongs to that path. There is no maximum for path IDs: the client takes them in order, each end
//! bounds how many paths it keeps at the same time, and a server gives up what is too much for it.

use std::collections::VecDeque;

use anabranch_wire::{ConnectionId, NewConnectionId, PathId, Side, Time, TransportErrorCode, Writer};

use super::echo::Echoes;
use super::{MAX_CLOSING_PATHS, Unopened};
use crate::config::MAX_PATHS;
use crate::connection::connection::Connection;
use crate::connection::receive::{Context, violation};
use crate::datagram_io::FourTuple;
use crate::error::TransportError;
use crate::event::EndpointEvent;
use crate::path::{LocalCids, MAX_LOCAL_CIDS, Path, Phase, RemoteCids, Status};
use crate::ranges::RangeSet;
use crate::token::Tokens;

/// Gaps among the path IDs that a client has used; the IDs of more gaps, the lowest ones, count as used.
pub(super) const MAX_ID_GAPS: usize = 16;

/// Addresses remembered that a peer has sent challenges from, so that what follows from there is known to be of the same path.
pub(super) const MAX_PROBED: usize = 8;

/// Connection IDs and path IDs of paths in one packet number space.
#[derive(Debug)]
pub(in crate::connection) struct Pool {
    /// All connection IDs that this end has issued.
    pub(super) local: LocalCids,
    /// Those of the peer that belong to no path yet, and all that are being retired.
    pub(super) remote: RemoteCids,
    /// Whether the peer uses connection IDs at all.
    peer_has_cids: bool,
    /// The paths that this end's connection IDs were used on.
    bound: Vec<Bound>,
    /// Where challenges came from, and for which path.
    probed: VecDeque<(FourTuple, PathId)>,
    /// Path IDs that are open or gone.
    used: RangeSet,
    /// Paths that may be open at the same time.
    max_paths: u32,
    pub(super) echoes: Echoes,
    /// The Retire Prior To that paths still have to follow; 0 for none.
    prior_to: u64,
}

/// A connection ID of this end that the peer has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    cid: ConnectionId,
    /// The path that it was used on.
    pub(super) path: PathId,
    /// Who says so.
    pub(super) certainty: Certainty,
}

/// Why a connection ID counts as a path's, in rising order: whatever is higher corrects what is lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// The addresses, which may be those of another path by now.
    Guessed,
    /// The answer to a challenge of the path came with it. The peer may have had to guess which path the challenge was for.
    Answered,
    /// A challenge came with it that names the path.
    Named,
}

impl Pool {
    /// Takes the connection IDs of path 0, but for the peer's that it uses.
    pub(super) fn new(path: &mut Path, max_paths: u32) -> Self {
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

    fn largest_id(&self) -> u64 {
        self.used.max().unwrap_or(0)
    }

    /// The path ID that a client takes next.
    pub(super) fn next_id(&self) -> Option<PathId> {
        u32::try_from(self.largest_id() + 1).ok().map(PathId)
    }

    /// Whether the path ID has never been used.
    pub(super) fn is_new(&self, id: PathId) -> bool {
        !self.used.contains(id.0.into())
    }

    /// The path ID must never be used again.
    pub(super) fn use_up(&mut self, id: PathId) {
        self.used.insert(u64::from(id.0)..u64::from(id.0) + 1);
        while self.used.len() > MAX_ID_GAPS + 1 {
            let Some(lowest) = self.used.pop_min() else { return };
            let next = self.used.first().map_or(lowest.end, |range| range.start);
            self.used.insert(lowest.start..next);
        }
    }

    /// A path ID that the peer names. Only a client begins new ones, and takes them in order, though what it says of them may
    /// come out of order.
    pub(super) fn check(&self, side: Side, id: PathId) -> Result<(), TransportError> {
        let ahead = if side.is_server() { u64::from(MAX_PATHS) } else { 0 };
        if u64::from(id.0) > self.largest_id() + ahead {
            return Err(violation("path ID that is not next"));
        }
        Ok(())
    }

    /// Whether there is a connection ID for another path.
    pub(super) fn has_cid(&self) -> bool {
        !self.peer_has_cids || self.remote.has_unused()
    }

    /// What a new path begins with.
    pub(super) fn take(&mut self, id: PathId) -> Unopened {
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

    /// The path that a connection ID of this end has been used on.
    pub(super) fn bound(&self, cid: &ConnectionId) -> Option<Bound> {
        self.bound.iter().find(|bound| bound.cid == *cid).copied()
    }

    /// A connection ID of this end was used on a path, to which it belongs from now on.
    pub(super) fn bind(&mut self, cid: ConnectionId, path: PathId, certainty: Certainty) {
        if let Some(bound) = self.bound.iter_mut().find(|bound| bound.cid == cid) {
            *bound = Bound { cid, path, certainty };
        } else if !cid.is_empty() && self.local.contains(&cid).is_some() {
            debug_assert!(self.bound.len() < 2 * MAX_LOCAL_CIDS, "no more than there are connection IDs");
            self.bound.push(Bound { cid, path, certainty });
        }
    }

    /// Whether the peer has said of any connection ID of this end that it is the path's.
    pub(super) fn is_certain_of(&self, path: PathId) -> bool {
        self.bound.iter().any(|bound| bound.path == path && bound.certainty > Certainty::Guessed)
    }

    /// The path that was probed over these addresses last.
    pub(super) fn probed(&self, tuple: &FourTuple) -> Option<PathId> {
        self.probed.iter().rev().find(|(probed, _)| probed == tuple).map(|(_, path)| *path)
    }

    /// A challenge of the path came over these addresses.
    pub(super) fn note_probe(&mut self, tuple: FourTuple, path: PathId) {
        self.probed.retain(|(probed, _)| *probed != tuple);
        if self.probed.len() == MAX_PROBED {
            self.probed.pop_front();
        }
        self.probed.push_back((tuple, path));
    }

    /// The path's state is gone.
    pub(super) fn forget(&mut self, id: PathId) {
        self.bound.retain(|bound| bound.path != id);
        self.probed.retain(|(_, path)| *path != id);
        self.echoes.forget(id);
    }

    /// A path is given up: its connection IDs are not used any longer. Unlike with a number space for each path the peer is told
    /// one by one, since it need not know which of them the path had.
    pub(super) fn reclaim(&mut self, cids: &mut RemoteCids) {
        self.remote.reclaim(cids);
    }

    /// Whether anything about connection IDs is owed.
    pub(super) fn has_pending(&self) -> bool {
        self.local.has_pending() || self.remote.has_pending()
    }

    /// Writes what is owed about connection IDs.
    pub(super) fn write(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        self.local.write(writer, tokens, false);
        self.remote.write(writer, tokens, false);
    }
}

impl Connection {
    /// Whether another path may be kept: not more open ones than this end wants, nor too many on their way out.
    pub(super) fn has_room_for_path(&self) -> bool {
        let Some(multipath) = &self.multipath else { return false };
        let Some(pool) = &multipath.pool else { return false };
        let open = self.paths.iter().filter(|path| !path.is_abandoned()).count();
        open < pool.max_paths as usize && self.closing_paths() < MAX_CLOSING_PATHS as usize
    }

    /// Gives a path an unused connection ID of the peer if it has none, as far as there is one.
    pub(in crate::connection) fn stock(&mut self, id: PathId) {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return;
        };
        if let Some(path) = self.paths.get_mut(id)
            && !path.remote_cids.has_unused()
        {
            pool.remote.lend(&mut path.remote_cids);
        }
    }

    /// NEW_CONNECTION_ID.
    pub(super) fn on_pooled_cid(&mut self, issued: &NewConnectionId) -> Result<(), TransportError> {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return Ok(());
        };
        if !pool.peer_has_cids {
            // RFC 9000 §19.15
            return Err(violation("NEW_CONNECTION_ID from a peer without connection IDs"));
        }
        let mut lent = 0;
        for path in self.paths.iter() {
            path.remote_cids.check_repeated(issued)?;
            lent += path.remote_cids.len() - path.remote_cids.older_than(issued.retire_prior_to);
        }
        pool.remote.on_new(issued)?;
        if (pool.remote.len() + lent) as u64 > self.config.active_connection_id_limit.max(2) {
            return Err(TransportError::new(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "more connection IDs than active_connection_id_limit",
            ));
        }
        // More of them may follow in the same packet.
        pool.prior_to = pool.prior_to.max(issued.retire_prior_to);
        self.collect_reset_tokens();
        Ok(())
    }

    /// Retire Prior To on paths, after a packet: each path that uses an older ID moves to another one, or has to go.
    pub(in crate::connection) fn retire_lent(&mut self, now: Time) -> Result<(), TransportError> {
        let pool = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut());
        let prior_to = pool.map_or(0, |pool| std::mem::take(&mut pool.prior_to));
        if prior_to == 0 {
            return Ok(());
        }
        for index in 0..self.paths.len() {
            let id = self.paths.nth(index);
            let outdated = self.paths.get(id).is_some_and(|path| path.remote_cids.older_than(prior_to) > 0);
            if !outdated {
                continue;
            }
            self.stock(id);
            let Some(path) = self.paths.get_mut(id) else { continue };
            let left = path.remote_cids.len() > path.remote_cids.older_than(prior_to);
            if !left && self.paths.iter().any(|path| path.id != id && path.is_usable()) {
                self.give_up_path(now, id, TransportErrorCode::NO_CID_AVAILABLE_FOR_PATH.0);
            } else if let Some(path) = self.paths.get_mut(id) {
                path.remote_cids.on_retire_prior_to(prior_to)?;
            }
        }
        self.collect_reset_tokens();
        Ok(())
    }

    /// RETIRE_CONNECTION_ID.
    pub(super) fn on_pooled_retire(
        &mut self,
        context: &Context<'_>,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return Ok(());
        };
        if let Some(cid) = pool.local.on_retire(sequence, context.dcid)? {
            pool.bound.retain(|bound| bound.cid != cid);
            self.endpoint_events.push_back(EndpointEvent::CidRetired(cid));
            self.pending.issue_cids = true;
        }
        Ok(())
    }

    /// Which stateless reset tokens of connection IDs that belong to no path are in use.
    pub(in crate::connection) fn collect_pooled_reset_tokens(&mut self) {
        if let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            while let Some(event) = pool.remote.poll_endpoint_event() {
                self.endpoint_events.push_back(event);
            }
        }
    }

    /// A client without connection IDs is found by its addresses: says which ones lead to it.
    pub(in crate::connection) fn route_tuple(&mut self, tuple: FourTuple) {
        if self.shared.cid_len() == 0 && self.side.is_client() {
            self.endpoint_events.push_back(EndpointEvent::TupleAdded(tuple));
        }
    }

    /// The addresses of a path that is gone lead nowhere, unless another path has them.
    pub(in crate::connection) fn unroute_tuple(&mut self, tuple: FourTuple) {
        let shared = self
            .paths
            .iter()
            .any(|path| path.tuple.remote == tuple.remote && path.tuple.local.port() == tuple.local.port());
        if self.shared.cid_len() == 0 && self.side.is_client() && !shared {
            self.endpoint_events.push_back(EndpointEvent::TupleRemoved(tuple));
        }
    }
}

/// Whether the server may not know the path yet: a client's first word on its status is the one that comes with the challenge.
pub(super) fn is_unnamed(path: &Path) -> bool {
    path.phase == Phase::Opening
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
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
    fn gaps_among_path_ids_are_few() {
        let mut pool = pool();
        for id in (0..1_000).map(|n| PathId(2 * n)) {
            pool.use_up(id);
            assert!(pool.used.len() <= MAX_ID_GAPS + 1 && !pool.is_new(id));
        }
        assert!(!pool.is_new(PathId(1)), "the lowest gaps count as used");
        assert!(pool.is_new(PathId(1_997)), "the highest do not");
    }

    #[test]
    fn addresses_of_challenges_are_remembered_up_to_a_bound() {
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
