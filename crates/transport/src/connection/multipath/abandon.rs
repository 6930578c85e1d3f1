//! Abandonment of paths (RFC 10069 §3.4): the exchange of PATH_ABANDON frames with the peer, and the
//! repetition of the path's unacknowledged data on other paths.

use anabranch_wire::{PathId, Time, TransportErrorCode, VarInt};

use crate::connection::connection::Connection;
use crate::error::TransportError;
use crate::event::{EndpointEvent, Event};
use crate::path::{Abandon, Closure, MAX_CLOSING_PATHS, Path, PathError, Phase, Purpose, no_path_left};
use crate::trace::TraceEvent;

impl Connection {
    /// Abandons a path (RFC 10069 §3.4). PATH_ABANDON carries `code`. Unacknowledged data is sent again on
    /// other paths. The last usable path cannot be abandoned: close the connection instead.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if no other one is usable.
    pub fn abandon_path(&mut self, now: Time, id: PathId, code: VarInt) -> Result<(), PathError> {
        if self.paths.list.get(id).is_none_or(Path::is_abandoned) {
            return Err(PathError::Unknown(id));
        }
        let others = self.paths.list.iter().any(|path| path.id != id && path.is_usable());
        if !(others && self.paths.is_multipath()) {
            return Err(PathError::Only(id));
        }
        self.give_up_path(now, id, code);
        Ok(())
    }

    /// Handles the peer's PATH_ABANDON, which either abandons a path or answers a PATH_ABANDON of this
    /// endpoint.
    pub(super) fn on_path_abandon(
        &mut self,
        now: Time,
        id: PathId,
        code: VarInt,
    ) -> Result<(), TransportError> {
        let closing = self.paths.closing_paths();
        let Some(multipath) = &mut self.paths.multipath else { return Ok(()) };
        if let Some(path) = self.paths.list.get(id) {
            if !path.is_abandoned() {
                if self.paths.is_last_path(id) {
                    // RFC 10069 §3.4: the connection must be closed. CONNECTION_CLOSE is sent on the path of
                    // this packet, on which the peer still receives.
                    return Err(no_path_left());
                }
                // RFC 10069 §3.4: packets received on the path are acknowledged one last time, immediately
                // and on another path.
                if let Some(path) = self.paths.list.get_mut(id) {
                    path.received.ack.require_ack();
                }
                self.close_path(now, id, code, true);
            }
            self.paths.begin_retention(now, id);
        } else if let Some(pool) = &mut multipath.pool {
            // If too many paths are closing, the frame is acknowledged but not answered with a PATH_ABANDON.
            let is_new = pool.is_new(id);
            pool.use_up(id);
            if is_new && closing < MAX_CLOSING_PATHS as usize {
                self.owe_abandon(id, code);
            }
        } else if multipath.unopened.contains_key(&id) {
            // The path will never be opened, so its connection IDs are discarded. A PATH_ABANDON in response
            // is due nevertheless.
            self.forget_unopened(id);
            self.owe_abandon(id, code);
        }
        Ok(())
    }

    /// Abandons a path on which the peer did not respond while it was being opened, as RFC 10069 §3.1.2
    /// requires. If it is the last path, the connection fails. There is one exception: if no other path is
    /// usable, and packets of the peer have arrived on this one, the challenges continue until another path
    /// is usable, or until the idle timeout. Such a peer has validated the path itself, and may have
    /// abandoned its other paths for it.
    pub(in crate::connection) fn on_opening_failed(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.list.get(id) else { return };
        let others = self.paths.list.iter().any(|other| other.id != id && other.is_usable());
        if !others && self.is_heard_on(path) {
            let (tuple, dcid) = (path.tuple, path.remote_cids.active());
            self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        } else if self.paths.is_last_path(id) {
            self.fail(now, no_path_left());
        } else {
            self.give_up_path(now, id, TransportErrorCode::PATH_UNSTABLE_OR_POOR.into());
        }
    }

    /// Returns whether a packet of the peer has certainly arrived on the path. A packet assigned by its
    /// addresses alone may have been sent on another path.
    fn is_heard_on(&self, path: &Path) -> bool {
        let pool = self.paths.multipath.as_ref().and_then(|multipath| multipath.pool.as_ref());
        let addresses_only = self.shared.cid_len() == 0;
        path.numbers.largest.is_some()
            && (addresses_only || pool.is_none_or(|pool| pool.is_certain_of(path.id)))
    }

    /// Abandons a path. Its state is kept until the peer has abandoned it too. [`MAX_CLOSING_PATHS`] limits
    /// the number of paths that are kept this way.
    pub(in crate::connection) fn give_up_path(&mut self, now: Time, id: PathId, code: VarInt) {
        self.close_path(now, id, code, false);
    }

    fn close_path(&mut self, now: Time, id: PathId, code: VarInt, by_peer: bool) {
        let after = now.saturating_since(self.origin.time);
        let Some(path) = self.paths.list.get_mut(id) else { return };
        path.phase = Phase::Abandoned { until: None };
        path.closure = Some(Closure { after, code, by_peer });
        path.address.validations.clear();
        path.ping = false;
        path.paced_until = None;
        if !self.handshake.progress.confirmed {
            self.set_progress(); // Another path may now be the main path, which keeps the handshake going.
        }
        let Some(path) = self.paths.list.get_mut(id) else { return };
        // RFC 10069 §3.4.1: the peer's connection IDs of the path count as retired.
        match self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            Some(pool) => pool.reclaim(&mut path.remote_cids),
            None => path.remote_cids.abandon(),
        }
        self.requeue_unacked(now, id);
        self.collect_reset_tokens();
        self.owe_abandon(id, code);
        self.output.events.push_back(Event::PathAbandoned { path: id, code });
        self.trace(now, &TraceEvent::PathAbandoned { path: id, code });
    }

    fn owe_abandon(&mut self, path: PathId, code: VarInt) {
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.owed.abandons.push(Abandon { path, code, sent: false });
            multipath.closed = multipath.closed.saturating_add(1);
            multipath.stop_scheduling(path);
        }
        self.offer_paths();
    }

    /// Allows new paths in place of removed ones: raises the maximum path ID and issues connection IDs.
    pub(super) fn offer_paths(&mut self) {
        let closing = self.paths.closing_paths();
        let Some(multipath) = &mut self.paths.multipath else { return };
        if multipath.pool.is_none() {
            multipath.offer(u32::try_from(closing).unwrap_or(u32::MAX));
        }
        self.pending.issue_cids = true;
    }

    fn forget_unopened(&mut self, id: PathId) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        let Some(unopened) = multipath.unopened.change().remove(&id) else { return };
        for (_, cid) in unopened.local.iter() {
            self.output.endpoint_events.push_back(EndpointEvent::CidRetired(cid));
        }
    }

    /// Removes abandoned paths whose retention has ended.
    pub(in crate::connection) fn expire_abandoned(&mut self, now: Time) {
        loop {
            let expired = self.paths.list.iter().find(|path| path.is_expired(now)).map(|path| path.id);
            let Some(id) = expired else { return };
            let info = self.paths.list.get(id).map(|path| self.path_info(path));
            let Some(path) = self.paths.list.remove(id) else { return };
            info.into_iter().for_each(|info| self.paths.closed.get_or_insert_default().add(info));
            for (_, cid) in path.local_cids.iter() {
                self.output.endpoint_events.push_back(EndpointEvent::CidRetired(cid));
            }
            self.paths.numbering.forget(id);
            if let Some(multipath) = &mut self.paths.multipath {
                multipath.forget_health(id);
                multipath.forget_ack_copies(id);
                if let Some(pool) = &mut multipath.pool {
                    pool.forget(id);
                    self.unroute_tuple(path.tuple);
                }
            }
            self.offer_paths();
        }
    }
}
