//! Opening of paths (RFC 10069 §3.1): at the client on request, at the server when the client's first packet
//! arrives.

use anabranch_recovery::Recovery;
use anabranch_wire::{ConnectionId, PathId, Time};

use crate::connection::connection::{Connection, recovery_config};
use crate::datagram_io::FourTuple;
use crate::event::{EndpointEvent, Event};
use crate::path::{OpenPathError, Path, PathCids, Phase, Purpose, Unopened, opens_paths};
use crate::trace::TraceEvent;

impl Connection {
    /// Issues connection IDs for future paths.
    pub(in crate::connection) fn issue_path_cids(&mut self) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        if let Some(pool) = &mut multipath.pool {
            for _ in 0..pool.local.wanted() {
                let cid = self.shared.cid(&mut self.random);
                pool.local.issue(cid, self.shared.reset_token(&cid));
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
            }
        }
        // RFC 10069 §3.2: no path ID may exceed the peer's maximum.
        let max = multipath.max();
        for unopened in multipath.unopened_mut(max) {
            for _ in 0..unopened.local.wanted() {
                let cid = self.shared.cid(&mut self.random);
                unopened.local.issue(cid, self.shared.reset_token(&cid));
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
            }
        }
    }

    /// Client: opens a path between these addresses. [`Event::PathOpened`] reports that the server has
    /// responded on it; the path then carries data.
    ///
    /// # Errors
    /// Fails if no path can be opened, at present or ever.
    pub fn open_path(&mut self, now: Time, tuple: FourTuple) -> Result<PathId, OpenPathError> {
        if !opens_paths(self.side) {
            return Err(OpenPathError::Server);
        }
        if !self.handshake.progress.complete {
            return Err(OpenPathError::NotConnected);
        }
        if self.paths.list.iter().any(|path| !path.is_abandoned() && path.tuple == tuple) {
            return Err(OpenPathError::Exists);
        }
        let room = self.paths.has_room_for_path();
        let multipath = self.paths.multipath.as_mut().ok_or(OpenPathError::NotNegotiated)?;
        multipath.wants_path = true;
        if let Some(pool) = &multipath.pool {
            let id = pool.next_id().filter(|_| room).ok_or(OpenPathError::NoPathId)?;
            if !pool.has_cid() {
                return Err(OpenPathError::NoConnectionId);
            }
            multipath.wants_path = false;
            self.insert_path(now, id, tuple, None);
            return Ok(id);
        }
        let Some(id) = multipath.next() else {
            multipath.owed.paths_blocked = multipath.is_blocked().then_some(multipath.remote_max);
            return Err(OpenPathError::NoPathId);
        };
        let ready = multipath.unopened.get(&id).is_some_and(|unopened| unopened.remote.has_unused());
        if !ready {
            multipath.owed.cids_blocked = Some(id);
            return Err(OpenPathError::NoConnectionId);
        }
        multipath.wants_path = false;
        self.insert_path(now, id, tuple, None);
        Ok(id)
    }

    /// Reports that a path can be opened now, if an earlier attempt failed.
    pub(super) fn report_available_paths(&mut self) {
        let multipath = self.paths.multipath.as_mut();
        if multipath.is_some_and(|multipath| std::mem::take(&mut multipath.wants_path)) {
            self.output.events.push_back(Event::PathsAvailable);
        }
    }

    /// Server: opens a path for an authentic packet that names it. Returns `false` at a client, or if no
    /// connection ID is available for responses. In the latter case the client repeats its challenge, and a
    /// connection ID in flight can arrive meanwhile.
    pub(in crate::connection) fn open_for_peer(
        &mut self,
        now: Time,
        id: PathId,
        tuple: FourTuple,
        dcid: ConnectionId,
        datagram_len: usize,
    ) -> bool {
        let ready = self.paths.multipath.as_ref().is_some_and(|multipath| match &multipath.pool {
            Some(pool) => pool.has_cid(),
            None => multipath.unopened.get(&id).is_some_and(|unopened| unopened.remote.has_unused()),
        });
        if opens_paths(self.side) || !ready {
            return false;
        }
        self.paths.uncount_elsewhere(id, &tuple, datagram_len);
        self.insert_path(now, id, tuple, Some(dcid));
        if let Some(path) = self.paths.list.get_mut(id) {
            path.on_datagram_received(datagram_len);
        }
        true
    }

    /// Inserts a path and starts its validation.
    fn insert_path(&mut self, now: Time, id: PathId, tuple: FourTuple, used_local_cid: Option<ConnectionId>) {
        // RFC 10069 §3.1: addresses that are already validated need no further validation.
        let known = self.paths.list.iter().any(|path| path.address.validated && path.tuple == tuple);
        let Some(multipath) = &mut self.paths.multipath else { return };
        let Some(Unopened { mut local, mut remote, status }) = multipath.take(id) else { return };
        let is_pooled = multipath.pool.is_some();
        let config = recovery_config(&self.config, &tuple, self.random.u64());
        let ecn = config.ecn() && !self.paths.numbering.has_ecn_failed();
        let config = config.with_ecn(ecn);
        let mut recovery = Recovery::new(&config, now);
        if let Some(peer) = &self.handshake.peer_parameters {
            let max = std::time::Duration::from_millis(peer.max_ack_delay);
            recovery.set_peer_max_ack_delay(max);
            recovery.set_peer_max_udp_payload(u16::try_from(peer.max_udp_payload_size).unwrap_or(u16::MAX));
            local.set_limit(if is_pooled { 0 } else { peer.active_connection_id_limit });
        }
        recovery.set_progress(self.progress(false));
        remote.next();
        let first = used_local_cid.or_else(|| local.iter().next().map(|(_, cid)| cid));
        let first = first.unwrap_or(ConnectionId::EMPTY);
        let mut path =
            Path::new(id, tuple, recovery, PathCids { local, remote, used_local: first }, &self.config.ack);
        path.phase = Phase::Opening;
        path.address.chose_local = opens_paths(self.side);
        path.status.peer = status;
        let dcid = path.remote_cids.active();
        // The anti-amplification limit applies only to the server, so a client marks its path as validated at
        // once. The opening phase keeps the client from sending data before the server has responded.
        if known || opens_paths(self.side) {
            path.set_validated();
        } else {
            let blocked = path.is_amplification_blocked();
            path.recovery.amplification_blocked(blocked);
        }
        self.paths.list.insert(path);
        self.route_tuple(tuple);
        self.collect_reset_tokens();
        self.issue_cids();
        self.trace(now, &TraceEvent::PathAssigned { path: id, tuple, validated: known });
        if known && self.side.is_server() {
            self.on_path_validated(now, id);
        } else {
            // A client always sends a challenge, because the challenge informs the server of the path.
            self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        }
    }

    /// Handles the validation of a path. Returns whether the path was being opened.
    pub(in crate::connection) fn on_path_validated(&mut self, now: Time, id: PathId) -> bool {
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.health_mut(id, now).on_validated(now);
        }
        let ack_delay = self.peer_ack_delay();
        let Some(path) = self.paths.list.get_mut(id).filter(|path| path.phase == Phase::Opening) else {
            return false;
        };
        path.phase = Phase::Open;
        if let Some(delay) = ack_delay {
            path.recovery.set_peer_max_ack_delay(delay);
        }
        // Peers may ignore the status of a path that they do not know yet, so it is repeated. In a single
        // packet number space the status already accompanies the challenge.
        if opens_paths(self.side) && !self.paths.numbering.is_single() {
            path.status.is_owed |= path.status.local.repeat();
        }
        self.output.events.push_back(Event::PathOpened(id));
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.states_changed = true; // The peer may have declared the path a backup already.
        }
        true
    }
}
