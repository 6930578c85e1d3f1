//! Opening paths (RFC 10069 §3.1): by the client's choice, and at the server when the client's first packet
//! arrives.

use anabranch_recovery::Recovery;
use anabranch_wire::{ConnectionId, PathId, Time};

use crate::connection::connection::{Connection, recovery_config};
use crate::datagram_io::FourTuple;
use crate::event::{EndpointEvent, Event};
use crate::path::{OpenPathError, Path, PathCids, Phase, Purpose, Unopened, opens_paths};
use crate::trace::TraceEvent;

impl Connection {
    /// Makes connection IDs for the paths to come.
    pub(in crate::connection) fn issue_path_cids(&mut self) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        if let Some(pool) = &mut multipath.pool {
            for _ in 0..pool.local.wanted() {
                let cid = self.random.cid(self.shared.cid_len());
                pool.local.issue(cid, self.shared.reset_token(&cid));
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
            }
        }
        // RFC 10069 §3.2: none above the peer's maximum.
        let max = multipath.max();
        for unopened in multipath.unopened_mut(max) {
            for _ in 0..unopened.local.wanted() {
                let cid = self.random.cid(self.shared.cid_len());
                unopened.local.issue(cid, self.shared.reset_token(&cid));
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
            }
        }
    }

    /// Client: opens a path between these addresses; it carries data as soon as the server has answered on
    /// it, [`Event::PathOpened`] tells.
    ///
    /// # Errors
    /// If no path can be opened now, or ever.
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

    /// Reports that a path may be opened now, if one could not be before.
    pub(super) fn report_available_paths(&mut self) {
        let multipath = self.paths.multipath.as_mut();
        if multipath.is_some_and(|multipath| std::mem::take(&mut multipath.wants_path)) {
            self.output.events.push_back(Event::PathsAvailable);
        }
    }

    /// Server: opens a path for an authentic packet that names it. A client's path cannot begin with such a
    /// packet, and no path can begin without a connection ID to answer to: the client asks again, and the ID
    /// has arrived by then if it is under way.
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

    /// Puts a path in, and begins to validate it.
    fn insert_path(&mut self, now: Time, id: PathId, tuple: FourTuple, used_local_cid: Option<ConnectionId>) {
        // RFC 10069 §3.1: addresses that have been validated need not be again.
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
        // The amplification limit is the server's; what keeps a client from using the path is its phase.
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
            // A client asks in any case: that is how the server learns of the path.
            self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        }
    }

    /// Validates a path on which the peer has answered. Returns whether it was being opened.
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
        // Peers may ignore the status of a path that they do not know yet. With one packet number space for
        // all paths it comes along with the challenge.
        if opens_paths(self.side) && !self.paths.numbering.is_single() {
            path.status.is_owed |= path.status.local.repeat();
        }
        self.output.events.push_back(Event::PathOpened(id));
        if let Some(multipath) = &mut self.paths.multipath {
            multipath.states_changed = true; // The peer may have made it a backup already.
        }
        true
    }
}
