//! Pool of connection IDs, from which the paths of a single packet number space take theirs: frames that
//! issue and retire the IDs, and registration of IDs and addresses with the router.

use anabranch_wire::{NewConnectionId, Time, TransportErrorCode};

use crate::connection::connection::Connection;
use crate::context::Context;
use crate::datagram_io::FourTuple;
use crate::error::{TransportError, violation};
use crate::event::EndpointEvent;

impl Connection {
    /// Handles NEW_CONNECTION_ID.
    pub(super) fn on_pooled_cid(&mut self, issued: &NewConnectionId) -> Result<(), TransportError> {
        let Some(pool) = self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return Ok(());
        };
        if !pool.peer_has_cids {
            // RFC 9000 §19.15
            return Err(violation("NEW_CONNECTION_ID from a peer without connection IDs"));
        }
        let mut lent = 0;
        for path in self.paths.list.iter() {
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
        // `retire_lent` applies Retire Prior To after the whole packet, which may contain further
        // NEW_CONNECTION_ID frames.
        pool.prior_to = pool.prior_to.max(issued.retire_prior_to);
        self.collect_reset_tokens();
        self.report_available_paths();
        Ok(())
    }

    /// Applies Retire Prior To to the paths after a packet. Each path that uses an older connection ID
    /// switches to another one, or is abandoned.
    pub(in crate::connection) fn retire_lent(&mut self, now: Time) -> Result<(), TransportError> {
        let pool = self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut());
        let prior_to = pool.map_or(0, |pool| std::mem::take(&mut pool.prior_to));
        if prior_to == 0 {
            return Ok(());
        }
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let outdated =
                self.paths.list.get(id).is_some_and(|path| path.remote_cids.older_than(prior_to) > 0);
            if !outdated {
                continue;
            }
            self.paths.stock(id);
            let Some(path) = self.paths.list.get_mut(id) else { continue };
            let left = path.remote_cids.len() > path.remote_cids.older_than(prior_to);
            if !left && self.paths.list.iter().any(|path| path.id != id && path.is_usable()) {
                self.give_up_path(now, id, TransportErrorCode::NO_CID_AVAILABLE_FOR_PATH.into());
            } else if let Some(path) = self.paths.list.get_mut(id) {
                path.remote_cids.on_retire_prior_to(prior_to)?;
            }
        }
        self.collect_reset_tokens();
        Ok(())
    }

    /// Handles RETIRE_CONNECTION_ID.
    pub(super) fn on_pooled_retire(
        &mut self,
        context: &Context<'_>,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let Some(pool) = self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) else {
            return Ok(());
        };
        if let Some(cid) = pool.local.on_retire(sequence, context.dcid)? {
            pool.bound.retain(|bound| bound.cid != cid);
            self.output.endpoint_events.push_back(EndpointEvent::CidRetired(cid));
            self.pending.issue_cids = true;
        }
        Ok(())
    }

    /// Forwards changes of the stateless reset tokens of pooled connection IDs, which belong to no path.
    pub(in crate::connection) fn collect_pooled_reset_tokens(&mut self) {
        if let Some(pool) = self.paths.multipath.as_mut().and_then(|multipath| multipath.pool.as_mut()) {
            while let Some(event) = pool.remote.poll_endpoint_event() {
                self.output.endpoint_events.push_back(event);
            }
        }
    }

    /// Registers the addresses with the router if this endpoint is a client with zero-length connection IDs.
    pub(in crate::connection) fn route_tuple(&mut self, tuple: FourTuple) {
        if self.shared.cid_len() == 0 && self.side.is_client() {
            self.output.endpoint_events.push_back(EndpointEvent::TupleAdded(tuple));
        }
    }

    /// Unregisters the addresses of a removed path, unless another path uses them.
    pub(in crate::connection) fn unroute_tuple(&mut self, tuple: FourTuple) {
        let shared =
            self.paths.list.iter().any(|path| {
                path.tuple.remote == tuple.remote && path.tuple.local.port() == tuple.local.port()
            });
        if self.shared.cid_len() == 0 && self.side.is_client() && !shared {
            self.output.endpoint_events.push_back(EndpointEvent::TupleRemoved(tuple));
        }
    }
}
