//! Frames of RFC 10069 in outgoing packets.

use anabranch_wire::{Frame, PathId, Writer};

use super::pool::{Pool, is_unnamed};
use super::{Multipath, PathSet, opens_paths};
use crate::path::{LocalCids, RemoteCids};
use crate::token::{Token, Tokens};

impl Multipath {
    /// Returns whether any frame must be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.owed.max_path_id
            || self.owed.paths_blocked.is_some()
            || self.owed.cids_blocked.is_some()
            || self.alternatives.has_pending()
            || self.owed.abandons.iter().any(|abandon| !abandon.sent)
            || self.pool.as_ref().is_some_and(Pool::has_pending)
            || self.unopened.has_pending()
    }

    pub(crate) fn write(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        if !self.write_abandons(writer, tokens) {
            return;
        }
        if self.owed.max_path_id && writer.frame(&Frame::MaxPathId(self.local_max.0.into())).is_ok() {
            self.owed.max_path_id = false;
            tokens.push(Token::MaxPathId);
        }
        if let Some(max) = self.owed.paths_blocked
            && writer.frame(&Frame::PathsBlocked(max.0.into())).is_ok()
        {
            self.owed.paths_blocked = None;
            tokens.push(Token::PathsBlocked);
        }
        if let Some(path) = self.owed.cids_blocked
            && let Some(unopened) = self.unopened.get(&path)
        {
            let next_sequence = unopened.remote.next_sequence();
            if writer.frame(&Frame::PathCidsBlocked { path, next_sequence }).is_ok() {
                self.owed.cids_blocked = None;
                tokens.push(Token::PathCidsBlocked(path));
            }
        }
        self.alternatives.write(writer, tokens);
        if self.unopened.has_pending() {
            for unopened in self.unopened.change().values_mut() {
                unopened.local.write(writer, tokens, true);
                unopened.remote.write(writer, tokens, true);
            }
        }
        if let Some(pool) = &mut self.pool {
            pool.write(writer, tokens);
        }
    }

    /// Writes pending PATH_ABANDON frames. Returns whether all of them fit.
    pub(crate) fn write_abandons(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) -> bool {
        for abandon in self.owed.abandons.iter_mut().filter(|abandon| !abandon.sent) {
            let frame = Frame::PathAbandon { path: abandon.path, code: abandon.code };
            if writer.frame(&frame).is_err() {
                return false;
            }
            abandon.sent = true;
            tokens.push(Token::PathAbandon(abandon.path));
        }
        true
    }

    /// Marks the lost PATH_ABANDON to be sent again.
    pub(crate) fn on_abandon_lost(&mut self, path: PathId) {
        if let Some(abandon) = self.owed.abandons.iter_mut().find(|abandon| abandon.path == path) {
            abandon.sent = false;
        }
    }

    pub(crate) fn on_abandon_acked(&mut self, path: PathId) {
        self.owed.abandons.retain(|abandon| abandon.path != path);
    }
}

impl PathSet {
    /// Returns whether [`Self::fill_multipath`] has frames to write.
    pub(crate) fn has_multipath_pending(&self) -> bool {
        self.multipath.as_ref().is_some_and(|multipath| {
            let early = multipath.pool.is_some() && opens_paths(self.side);
            multipath.has_pending()
                || self.list.iter().filter(|path| !path.is_abandoned()).any(|path| {
                    path.status.is_owed && !(early && is_unnamed(path))
                        || path.local_cids.has_pending()
                        || path.remote_cids.has_pending()
                })
        })
    }

    /// Queues all unacknowledged PATH_ABANDON frames again. Each end may have abandoned the path on which the
    /// other one sends. In that case nothing is acknowledged until these frames arrive.
    pub(crate) fn repeat_abandons(&mut self) {
        if let Some(multipath) = &mut self.multipath {
            multipath.owed.abandons.iter_mut().for_each(|abandon| abandon.sent = false);
        }
    }

    /// Writes the PATH_ABANDON frames along with a challenge on path `id` if no other path works. The path
    /// may be the only one on which the peer can learn which paths this end has abandoned. The frames do not
    /// wait for the probe timeout of a path that has been silent for long, because challenges are sent more
    /// often, and each postpones that timeout.
    pub(crate) fn fill_last_word(&mut self, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        if self.list.iter().any(|other| other.id != id && other.is_working()) {
            return;
        }
        self.repeat_abandons();
        if let Some(multipath) = &mut self.multipath {
            multipath.write_abandons(writer, tokens);
        }
    }

    /// Writes the pending frames about all paths. Any path may carry them.
    pub(crate) fn fill_multipath(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let opens = opens_paths(self.side);
        let Some(multipath) = &mut self.multipath else { return };
        if let Some(pool) = &mut multipath.pool {
            self.list.iter_mut().for_each(|path| pool.remote.collect_retiring(&mut path.remote_cids));
        }
        let is_pooled = multipath.pool.is_some();
        multipath.write(writer, tokens);
        for path in self.list.iter_mut().filter(|path| !path.is_abandoned()) {
            if path.status.is_owed
                && !(is_pooled && opens && is_unnamed(path))
                && let Some(sequence) = path.status.local.sequence()
            {
                let frame =
                    Frame::PathStatus { path: path.id, available: path.status.local.available, sequence };
                if writer.frame(&frame).is_ok() {
                    path.status.is_owed = false;
                    tokens.push(Token::PathStatus { path: path.id, sequence });
                }
            }
            if !is_pooled {
                path.local_cids.write(writer, tokens, true);
                path.remote_cids.write(writer, tokens, true);
            }
        }
    }

    /// Queues a lost frame about paths again if it is still valid.
    pub(crate) fn on_multipath_lost(&mut self, token: &Token) {
        let Some(multipath) = &mut self.multipath else { return };
        match *token {
            Token::PathAbandon(path) => multipath.on_abandon_lost(path),
            Token::PathStatus { path, sequence } => {
                if let Some(path) = self.list.get_mut(path) {
                    path.status.is_owed |= path.status.local.sequence() == Some(sequence);
                }
            }
            Token::AlternativeAddress(sequence) => multipath.alternatives.on_lost(sequence),
            Token::MaxPathId => multipath.owed.max_path_id = true,
            Token::PathsBlocked if multipath.is_blocked() => {
                multipath.owed.paths_blocked = Some(multipath.remote_max);
            }
            Token::PathCidsBlocked(path) => {
                let blocked =
                    multipath.unopened.get(&path).is_some_and(|unopened| !unopened.remote.has_unused());
                multipath.owed.cids_blocked = blocked.then_some(path).or(multipath.owed.cids_blocked);
            }
            _ => {}
        }
    }

    /// Updates the connection IDs of a path after a frame about one of them was acknowledged or lost.
    pub(crate) fn on_cid_frame(&mut self, token: &Token, is_lost: bool) {
        match *token {
            Token::NewConnectionId { path, sequence } => {
                let end = if is_lost { LocalCids::on_lost } else { LocalCids::on_acked };
                self.local_cids_mut(path).into_iter().for_each(|cids| end(cids, sequence));
            }
            Token::RetireConnectionId { path, sequence } => {
                let end = if is_lost { RemoteCids::on_lost } else { RemoteCids::on_acked };
                self.remote_cids_mut(path).into_iter().for_each(|cids| end(cids, sequence));
            }
            _ => {}
        }
    }
}
