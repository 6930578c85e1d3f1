//! Identification of a packet's path in the single packet number space, from addresses and challenges.

use anabranch_wire::{PathId, Time};

use super::PathSet;
use crate::datagram_io::FourTuple;
use crate::path::{Path, Purpose};

impl PathSet {
    /// Corrects a server that mistakes one path of the client for another, as it may after a NAT has changed
    /// a port. Its challenge then arrives on `tuple` but names the path `named`, while another path of the
    /// client uses `tuple`. The client begins a validation of that other path, because its own challenge
    /// names the right path.
    pub(crate) fn correct_server(&mut self, now: Time, tuple: &FourTuple, named: PathId) {
        let asks = |path: &Path| path.address.validations.iter().any(|validation| validation.tuple == *tuple);
        if self.side.is_server() || self.list.iter().any(asks) {
            return;
        }
        let own = |path: &&Path| path.id != named && path.is_usable() && path.tuple == *tuple;
        let own = self.list.iter().find(own).map(|path| (path.id, path.remote_cids.active()));
        if let Some((id, dcid)) = own {
            self.validate(now, id, *tuple, dcid, Purpose::Size);
        }
    }

    /// Returns the path whose challenge had this data. The response belongs to that path (RFC 9000 §8.2.2),
    /// even if it arrives on the addresses of another path because the path is about to migrate there.
    pub(crate) fn asked_with(&self, data: [u8; 8]) -> Option<PathId> {
        let asked = |path: &&Path| {
            path.address.validations.iter().any(|validation| validation.answered_by(data).is_some())
        };
        self.list.iter().find(asked).map(|path| path.id)
    }

    /// Guesses the path of a packet from its addresses, if the packet does not name its path.
    pub(crate) fn guess_path(&self, tuple: &FourTuple) -> PathId {
        let open = |path: &&Path| !path.is_abandoned() && path.tuple.matches(tuple);
        if let Some(path) = self.list.iter().find(open) {
            return path.id;
        }
        let pool = self.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref());
        if let Some(probed) =
            pool.and_then(|pool| pool.probed(tuple)).filter(|id| self.list.get(*id).is_some())
        {
            return probed;
        }
        let left = |path: &&Path| {
            path.is_abandoned() && path.tuple.matches(tuple)
                || path.address.previous.as_ref().is_some_and(|previous| previous.tuple.matches(tuple))
        };
        if let Some(path) = self.list.iter().find(left) {
            return path.id;
        }
        // A NAT may have changed the port. The packet then belongs to the path between the same hosts, if
        // there is only one.
        let same_hosts = |path: &&Path| {
            path.is_usable()
                && path.tuple.remote.ip() == tuple.remote.ip()
                && path.tuple.local.ip() == tuple.local.ip()
        };
        let mut alike = self.list.iter().filter(same_hosts);
        match (alike.next(), alike.next()) {
            (Some(path), None) => path.id,
            _ => self.list.main().id,
        }
    }

    pub(crate) fn note_probe(&mut self, tuple: FourTuple, id: PathId) {
        if let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            pool.note_probe(tuple, id);
        }
    }
}
