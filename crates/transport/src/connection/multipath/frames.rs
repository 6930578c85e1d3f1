//! Dispatch of received frames of RFC 10069 (§4) to their owners.

use anabranch_wire::{Frame, NewConnectionId, PathId, Time};

use crate::connection::connection::Connection;
use crate::context::Context;
use crate::error::{TransportError, violation};
use crate::event::EndpointEvent;
use crate::path::{Path, not_negotiated};

impl Connection {
    /// Handles a frame about paths. Returns an error if multipath was not negotiated (RFC 10069 §2).
    pub(in crate::connection) fn on_multipath_frame(
        &mut self,
        now: Time,
        context: &Context<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), TransportError> {
        let side = self.side;
        let multipath = self.paths.multipath.as_mut().ok_or_else(not_negotiated)?;
        if multipath.pool.is_some() {
            match *frame {
                Frame::NewConnectionId(ref issued) if issued.path.is_none() => {
                    return self.on_pooled_cid(issued);
                }
                Frame::RetireConnectionId { path: None, sequence } => {
                    return self.on_pooled_retire(context, sequence);
                }
                Frame::PathAbandon { .. } | Frame::PathStatus { .. } => {}
                _ => return Err(violation("frame of a numbering that was not chosen")),
            }
        }
        match *frame {
            // RFC 10069 §3.2: without a path ID, these frames apply to path 0.
            Frame::NewConnectionId(ref issued) => {
                let path = issued.path.unwrap_or(PathId::ZERO);
                multipath.check(side, path)?;
                self.on_path_new_cid(path, issued)
            }
            Frame::RetireConnectionId { path, sequence } => {
                let path = path.unwrap_or(PathId::ZERO);
                multipath.check(side, path)?;
                self.on_path_retire_cid(context, path, sequence)
            }
            Frame::PathAbandon { path, code } => {
                multipath.check(side, path)?;
                self.on_path_abandon(now, path, code)
            }
            Frame::PathStatus { path, available, sequence } => {
                multipath.check(side, path)?;
                self.on_path_status(now, path, available, sequence);
                Ok(())
            }
            Frame::MaxPathId(maximum) => self.on_max_path_id(maximum),
            Frame::PathsBlocked(maximum) => {
                if maximum > u64::from(multipath.local_max.0) {
                    return Err(violation("PATHS_BLOCKED above the maximum"));
                }
                // If the limit is higher than the peer knew when it sent this frame, MAX_PATH_ID is sent
                // again.
                multipath.owed.max_path_id |= maximum < u64::from(multipath.local_max.0);
                Ok(())
            }
            Frame::PathCidsBlocked { path, next_sequence } => {
                multipath.check(side, path)?;
                self.paths.on_path_cids_blocked(path, next_sequence)
            }
            _ => Err(not_negotiated()),
        }
    }

    fn on_path_new_cid(&mut self, path: PathId, issued: &NewConnectionId) -> Result<(), TransportError> {
        let multipath = self.paths.multipath.as_mut().ok_or_else(not_negotiated)?;
        // RFC 10069 §3.2: a connection ID belongs to one path only.
        let open = |other: &Path| other.id != path && other.remote_cids.holds(&issued.cid);
        if self.paths.list.iter().any(open) || multipath.holds_remote_cid(&issued.cid, path) {
            return Err(violation("a connection ID for two paths"));
        }
        if let Some(open) = self.paths.list.get_mut(path) {
            if !open.is_abandoned() {
                open.remote_cids.on_new(issued)?;
                self.collect_reset_tokens();
            }
        } else if let Some(unopened) = multipath.unopened.change().get_mut(&path) {
            unopened.remote.on_new(issued)?;
            if multipath.owed.cids_blocked == Some(path) {
                multipath.owed.cids_blocked = None;
            }
            self.report_available_paths();
        }
        // A path that is neither open nor unopened has been removed; its frame is ignored.
        Ok(())
    }

    fn on_path_retire_cid(
        &mut self,
        context: &Context<'_>,
        path: PathId,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let retired = match (self.paths.list.get_mut(path), &mut self.paths.multipath) {
            (Some(open), _) if open.is_abandoned() => None,
            (Some(open), _) => open.local_cids.on_retire(sequence, context.dcid)?,
            (None, Some(multipath)) => match multipath.unopened.change().get_mut(&path) {
                Some(unopened) => unopened.local.on_retire(sequence, context.dcid)?,
                None => None,
            },
            (None, None) => None,
        };
        if let Some(cid) = retired {
            self.output.endpoint_events.push_back(EndpointEvent::CidRetired(cid));
            self.after_local_retire(path, cid);
            self.pending.issue_cids = true;
        }
        Ok(())
    }

    fn on_max_path_id(&mut self, maximum: u64) -> Result<(), TransportError> {
        let initial = self.handshake.peer_parameters.as_ref().and_then(|peer| peer.initial_max_path_id);
        let multipath = self.paths.multipath.as_mut().ok_or_else(not_negotiated)?;
        let maximum = u32::try_from(maximum).map_err(|_| violation("MAX_PATH_ID above 2^32 - 1"))?;
        if initial.is_some_and(|initial| maximum < initial) {
            return Err(violation("MAX_PATH_ID below the initial maximum"));
        }
        if PathId(maximum) > multipath.remote_max {
            multipath.remote_max = PathId(maximum);
            multipath.owed.paths_blocked = None;
            self.pending.issue_cids = true;
            self.report_available_paths();
        }
        Ok(())
    }
}
