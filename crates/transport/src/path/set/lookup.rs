//! Assignment of connection IDs and packet numbers to paths.

use anabranch_wire::{ConnectionId, PathId, SpaceId};

use super::PathSet;
use super::pool::Pool;
use crate::datagram_io::FourTuple;

/// Path of a connection ID.
#[derive(Clone, Copy)]
pub(crate) struct Addressee {
    pub(crate) path: PathId,
    /// `true` if the ID is the one that the peer uses on the main path.
    pub(crate) is_usual: bool,
}

impl PathSet {
    /// Returns whether the addresses and the connection ID of a packet are the usual ones of `path`.
    pub(crate) fn came_as_usual_on(&self, tuple: &FourTuple, path: PathId, dcid: &ConnectionId) -> bool {
        let path = self.list.get(path);
        path.is_some_and(|path| path.tuple == *tuple && path.used_local_cid == *dcid)
    }

    /// Returns whether packets between these addresses, with this connection ID, are the usual ones of `path`
    /// and are assigned to it if they contain only stream data.
    pub(crate) fn is_usual_of(&self, path: PathId, tuple: &FourTuple, dcid: &ConnectionId) -> bool {
        // In the single packet number space, the connection ID in use on a path may be assigned to another one.
        let pool = self.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref());
        let assigned =
            |pool: &Pool| pool.bound(dcid).map_or_else(|| self.guess_path(tuple), |bound| bound.path);
        pool.is_none_or(|pool| assigned(pool) == path) && self.came_as_usual_on(tuple, path, dcid)
    }

    /// Returns the path to which a connection ID belongs.
    #[inline(always)]
    pub(crate) fn addressee(&self, dcid: &ConnectionId) -> Option<Addressee> {
        let main = self.list.main();
        if *dcid == main.used_local_cid {
            return Some(Addressee { path: main.id, is_usual: true });
        }
        let path = self.list.by_local_cid(dcid).or_else(|| {
            let unopened = self.multipath.as_ref()?.by_local_cid(dcid)?;
            Some(if self.numbering.is_single() { main.id } else { unopened })
        })?;
        Some(Addressee { path, is_usual: false })
    }

    /// Begins a key phase: later packets on each path belong to it.
    pub(crate) fn begin_phase(&mut self) {
        for path in self.list.iter_mut() {
            path.numbers.phase_start = path.recovery.next_order(SpaceId::Data);
            self.numbering.begin_phase(&mut path.received);
        }
    }

    /// Returns whether `number` was received before on a path; `true` if the path does not exist.
    #[inline]
    pub(crate) fn is_duplicate_on(&self, path: PathId, number: u64) -> bool {
        let path = self.list.get(path);
        path.is_none_or(|path| self.numbering.is_duplicate(&path.received, number))
    }
}
