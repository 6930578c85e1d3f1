//! Location of a packet's path if all paths share a packet number space.
//!
//! A connection ID that was used on a path identifies this path, so that a path keeps its identity when its
//! addresses change. Without such a connection ID the addresses decide. A PATH_CHALLENGE is accompanied by
//! PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP, which names the path. A challenge that a client sends from
//! new addresses names a new path, or one that is about to move to them. Any other packet from new addresses
//! is taken for a NAT rebinding.
//!
//! Addresses may mislead, because each endpoint learns of the other's changes late. Only a challenge that
//! names the path binds a connection ID to it for good. Until then later evidence from the peer corrects the
//! binding ([`Certainty`]).

use anabranch_wire::{ConnectionId, Direction, Frame, Frames, PathId, Time, TransportErrorCode};

use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::path::{Abandon, Certainty, MAX_CLOSING_PATHS};

impl Connection {
    /// Returns the path of an authentic 1-RTT packet with a new packet number. Opens the path if the packet
    /// is the client's first packet on it. Returns `None` if the packet names a path that has been removed or
    /// cannot be opened now. Such a packet is not assigned to another path, because a response to its
    /// challenge would suggest that the named path was opened.
    pub(in crate::connection) fn locate(
        &mut self,
        now: Time,
        tuple: &FourTuple,
        dcid: ConnectionId,
        datagram_len: usize,
        payload: &[u8],
    ) -> Option<PathId> {
        let Some(pool) = self.paths.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref()) else {
            return Some(self.paths.list.main().id);
        };
        let bound = pool.bound(&dcid).filter(|bound| self.paths.list.get(bound.path).is_some());
        if let Some(bound) = bound.filter(|bound| bound.certainty == Certainty::Named) {
            return Some(bound.path);
        }
        let said = Said::of(payload, self.format.direction);
        // A path that the peer names takes precedence over the addresses: this endpoint may still assign the
        // addresses to another path.
        let (path, certainty) = if let Some(named) = said.named() {
            self.paths.correct_server(now, tuple, named);
            if self.paths.list.get(named).is_some() {
                self.paths.note_probe(*tuple, named);
            } else if !self.open_named(now, named, tuple, dcid, datagram_len) {
                return None;
            }
            (named, Certainty::Named)
        } else if let Some(bound) = bound.filter(|bound| bound.certainty == Certainty::Answered) {
            return Some(bound.path);
        } else if let Some(asked) = said.response.and_then(|data| self.paths.asked_with(data)) {
            (asked, Certainty::Answered)
        } else {
            (bound.map_or_else(|| self.paths.guess_path(tuple), |bound| bound.path), Certainty::Guessed)
        };
        if let Some(pool) = self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            pool.bind(dcid, path, certainty);
        }
        Some(path)
    }

    /// Opens the path that the peer's challenge names, if permitted. Only a client may name new paths.
    fn open_named(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        dcid: ConnectionId,
        datagram_len: usize,
    ) -> bool {
        let room = self.paths.has_room_for_path();
        let closing = self.paths.closing_paths();
        let Some(multipath) = &mut self.paths.multipath else { return false };
        let Some(pool) = &mut multipath.pool else { return false };
        if !pool.is_new(id) || pool.check(self.side, id).is_err() {
            return false; // The path has been removed, or the peer must not name it.
        }
        if !room {
            if closing < MAX_CLOSING_PATHS as usize {
                pool.use_up(id);
                let code = TransportErrorCode::PATH_RESOURCE_LIMIT_REACHED.into();
                multipath.owed.abandons.push(Abandon { path: id, code, sent: false });
            }
            return false;
        }
        // If no connection ID is left for responses, the path is not opened, and the client must repeat its
        // challenge.
        pool.has_cid() && self.open_for_peer(now, id, *tuple, dcid, datagram_len)
    }
}

/// Frames that show to which path a packet belongs.
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

    /// Returns the path that a packet with a challenge names.
    fn named(&self) -> Option<PathId> {
        self.status.filter(|_| self.challenge)
    }
}
