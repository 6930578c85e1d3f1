//! Which path a packet belongs to if all paths share their packet numbers.
//!
//! The connection ID tells, once it has been used on a path, and so a path keeps its identity when its addresses change. Without
//! one the addresses tell. A challenge comes with PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP, which names the path: if it comes
//! from a client on new addresses, a new one, or one that is about to move there. Whatever else comes from new addresses is a
//! rebinding.
//!
//! Addresses may mislead, since each end hears late what the other has done with them. So a connection ID belongs to a path for
//! good only when a challenge has named it; until then what the peer says corrects it ([`Certainty`]).

use anabranch_wire::{ConnectionId, Direction, Frame, Frames, PathId, Time, TransportErrorCode};

use super::pool::Certainty;
use super::{Abandon, MAX_CLOSING_PATHS};
use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::path::{Path, Purpose};

impl Connection {
    /// The path of an authentic 1-RTT packet of a new number; opens it if the packet is a client's first on it. `None` if the
    /// packet names a path that is gone or cannot be opened now: on any other path it would be answered as if it could.
    pub(in crate::connection) fn locate(
        &mut self,
        now: Time,
        tuple: &FourTuple,
        dcid: ConnectionId,
        datagram_len: usize,
        payload: &[u8],
    ) -> Option<PathId> {
        let Some(pool) = self.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref()) else {
            return Some(self.paths.main().id);
        };
        let bound = pool.bound(&dcid).filter(|bound| self.paths.get(bound.path).is_some());
        if let Some(bound) = bound.filter(|bound| bound.certainty == Certainty::Named) {
            return Some(bound.path);
        }
        let said = Said::of(payload, self.format.direction);
        // What the peer says goes before the addresses: another path may still run over them as far as this end knows.
        let (path, certainty) = if let Some(named) = said.named() {
            self.correct_server(now, tuple, named);
            if self.paths.get(named).is_some() {
                self.note_probe(*tuple, named);
            } else if !self.open_named(now, named, tuple, dcid, datagram_len) {
                return None;
            }
            (named, Certainty::Named)
        } else if let Some(bound) = bound.filter(|bound| bound.certainty == Certainty::Answered) {
            return Some(bound.path);
        } else if let Some(asked) = said.response.and_then(|data| self.asked_with(data)) {
            (asked, Certainty::Answered)
        } else {
            (bound.map_or_else(|| self.guess_path(tuple), |bound| bound.path), Certainty::Guessed)
        };
        if let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            pool.bind(dcid, path, certainty);
        }
        Some(path)
    }

    /// A server's challenge names a path, and came to the addresses of another one: where only the port has changed, the server may
    /// take the one for the other, and nothing else would ever tell it. A challenge that names the path does.
    fn correct_server(&mut self, now: Time, tuple: &FourTuple, named: PathId) {
        let asks = |path: &Path| path.validations.iter().any(|validation| validation.tuple == *tuple);
        if self.side.is_server() || self.paths.iter().any(asks) {
            return;
        }
        let own = |path: &&Path| path.id != named && path.is_usable() && path.tuple == *tuple;
        let own = self.paths.iter().find(own).map(|path| (path.id, path.remote_cids.active()));
        if let Some((id, dcid)) = own {
            self.validate(now, id, *tuple, dcid, Purpose::Size);
        }
    }

    /// The path whose challenge had this data: the answer comes on it (RFC 9000 §8.2.2), although its addresses may be those of
    /// another one if it is about to move there.
    fn asked_with(&self, data: [u8; 8]) -> Option<PathId> {
        let asked =
            |path: &&Path| path.validations.iter().any(|validation| validation.answered_by(data).is_some());
        self.paths.iter().find(asked).map(|path| path.id)
    }

    /// The path of a packet that does not say which one it is on, from its addresses.
    fn guess_path(&self, tuple: &FourTuple) -> PathId {
        let open = |path: &&Path| !path.is_abandoned() && path.tuple.matches(tuple);
        if let Some(path) = self.paths.iter().find(open) {
            return path.id;
        }
        let pool = self.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref());
        if let Some(probed) =
            pool.and_then(|pool| pool.probed(tuple)).filter(|id| self.paths.get(*id).is_some())
        {
            return probed;
        }
        let left = |path: &&Path| {
            path.is_abandoned() && path.tuple.matches(tuple)
                || path.previous.as_ref().is_some_and(|previous| previous.tuple.matches(tuple))
        };
        if let Some(path) = self.paths.iter().find(left) {
            return path.id;
        }
        // A NAT changes the port: the path of the same hosts has moved, if there is only one.
        let same_hosts = |path: &&Path| {
            path.is_usable()
                && path.tuple.remote.ip() == tuple.remote.ip()
                && path.tuple.local.ip() == tuple.local.ip()
        };
        let mut alike = self.paths.iter().filter(same_hosts);
        match (alike.next(), alike.next()) {
            (Some(path), None) => path.id,
            _ => self.paths.main().id,
        }
    }

    /// Opens the path that the peer's challenge names, if it may be opened: only a client's names are new.
    fn open_named(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        dcid: ConnectionId,
        datagram_len: usize,
    ) -> bool {
        let room = self.has_room_for_path();
        let closing = self.closing_paths();
        let Some(multipath) = &mut self.multipath else { return false };
        let Some(pool) = &mut multipath.pool else { return false };
        if !pool.is_new(id) || pool.check(self.side, id).is_err() {
            return false; // Gone, or wrong, as the frame's owner will find.
        }
        if !room {
            if closing < MAX_CLOSING_PATHS as usize {
                pool.use_up(id);
                let code = TransportErrorCode::PATH_RESOURCE_LIMIT_REACHED.0;
                multipath.abandons.push(Abandon { path: id, code, sent: false });
            }
            return false;
        }
        // Without a connection ID for the answer the client has to ask again.
        pool.has_cid() && self.open_for_peer(now, id, *tuple, dcid, datagram_len)
    }

    fn note_probe(&mut self, tuple: FourTuple, id: PathId) {
        if let Some(pool) = self.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            pool.note_probe(tuple, id);
        }
    }
}

/// What a packet says about its path.
#[derive(Default)]
struct Said {
    challenge: bool,
    status: Option<PathId>,
    response: Option<[u8; 8]>,
}

impl Said {
    fn of(payload: &[u8], direction: Direction) -> Self {
        let mut said = Self::default();
        for frame in Frames::new(payload, direction).map_while(Result::ok) {
            match frame {
                Frame::PathChallenge(_) => said.challenge = true,
                Frame::PathStatus { path, .. } => said.status = Some(path),
                Frame::PathResponse(data) => said.response = Some(data),
                _ => {}
            }
        }
        said
    }

    /// The path that a packet with a challenge names.
    fn named(&self) -> Option<PathId> {
        self.status.filter(|_| self.challenge)
    }
}
