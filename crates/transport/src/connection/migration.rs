//! Moves of a path to other addresses: the peer's migration and NAT rebinding, our own migration, preferred
//! addresses (RFC 9000 §9).

use std::net::SocketAddr;

use anabranch_wire::{ConnectionId, PacketKind, PathId, Time};

use crate::connection::connection::Connection;
use crate::context::Context;
use crate::datagram_io::FourTuple;
use crate::event::Event;
use crate::path::{MigrateError, Path, Phase, Previous, Purpose, may_follow};
use crate::trace::TraceEvent;

/// Move of the peer to other addresses.
pub(super) struct Moved {
    /// `true` if the peer also sends to another connection ID.
    changed_cid: bool,
}

impl Connection {
    /// Moves the main path (path 0, or the oldest one in use) to `local` as soon as the server has responded
    /// there (RFC 9000 §9.2). [`Event::PathChanged`] reports the move. Has no effect if the path already uses
    /// `local`.
    ///
    /// # Errors
    /// Fails if migration is forbidden, or impossible at present. The connection then continues unchanged.
    pub fn migrate(&mut self, now: Time, local: SocketAddr) -> Result<(), MigrateError> {
        self.may_migrate()?;
        let tuple = FourTuple { local, remote: self.paths.list.main().tuple.remote };
        if tuple == self.paths.list.main().tuple {
            // The path already runs between these addresses. If they are still being validated, the
            // validation continues.
            return Ok(());
        }
        let (sequence, dcid) = self.paths.take_cid_for(&tuple)?;
        self.probe(now, tuple, sequence, dcid);
        self.take_along_preferred(now, local);
        Ok(())
    }

    /// Validates the server's preferred address from `local` as well, to which this client is migrating, if
    /// it is being validated from the path's local address (RFC 9000 §9.6.3). If the server has issued no
    /// connection ID for that, the client stays at the server's original address.
    fn take_along_preferred(&mut self, now: Time, local: SocketAddr) {
        let path = self.paths.list.main();
        let from = path.tuple.local;
        let moves = path.address.validations.iter().filter(|one| matches!(one.purpose, Purpose::Move { .. }));
        let mut asked = moves.map(|one| one.tuple).filter(|tuple| self.is_preferred(tuple.remote));
        let Some(FourTuple { remote, .. }) = asked.find(|tuple| tuple.local == from) else { return };
        let tuple = FourTuple { local, remote };
        match self.paths.take_cid_for(&tuple) {
            Ok((sequence, dcid)) => self.probe(now, tuple, sequence, dcid),
            Err(_) => {
                let other = FourTuple { local: from, remote };
                self.paths.list.main_mut().cancel_validations(|one| one.tuple == other);
            }
        }
    }

    /// Returns whether `address` is the server's preferred address, at either end.
    fn is_preferred(&self, address: SocketAddr) -> bool {
        let own = self.server.as_ref().and_then(|server| server.preferred_address);
        let peers = self.handshake.peer_parameters.as_ref().and_then(|p| p.preferred_address.as_ref());
        let (v4, v6) = match own {
            Some(own) => (own.v4, own.v6),
            None => peers.map_or((None, None), |peers| (peers.v4, peers.v6)),
        };
        let is_same = |preferred: SocketAddr| {
            preferred.port() == address.port() && preferred.ip() == address.ip().to_canonical()
        };
        v4.is_some_and(|v4| is_same(v4.into())) || v6.is_some_and(|v6| is_same(v6.into()))
    }

    /// Returns whether this endpoint may migrate now (RFC 9000 §9).
    pub(super) fn may_migrate(&self) -> Result<(), MigrateError> {
        if self.side.is_server() {
            return Err(MigrateError::Server);
        }
        if !self.handshake.progress.confirmed {
            return Err(MigrateError::NotConfirmed);
        }
        let forbids = |parameters: &anabranch_wire::TransportParameters| parameters.disable_active_migration;
        match self.handshake.peer_parameters.as_ref().is_some_and(forbids) {
            true => Err(MigrateError::Forbidden),
            false => Ok(()),
        }
    }

    fn probe(&mut self, now: Time, tuple: FourTuple, sequence: u64, dcid: ConnectionId) {
        let id = self.paths.list.main().id;
        // The router keeps the old addresses as well, for packets in flight.
        self.route_tuple(tuple);
        self.paths.validate(now, id, tuple, dcid, Purpose::Move { sequence });
    }

    /// Starts a client's migration to the server's preferred address (RFC 9000 §9.6.2), unless that address
    /// is implausible (§21.5).
    pub(super) fn begin_preferred_address(&mut self, now: Time) {
        let Some(preferred) =
            self.handshake.peer_parameters.as_ref().and_then(|p| p.preferred_address.as_ref())
        else {
            return;
        };
        let path = self.paths.list.main();
        let current = path.tuple;
        let remote = match current.remote {
            SocketAddr::V4(_) => preferred.v4.map(SocketAddr::V4),
            SocketAddr::V6(_) => preferred.v6.map(SocketAddr::V6),
        };
        let Some(remote) = remote.filter(|remote| may_follow(&current.remote, remote)) else { return };
        let Some(dcid) = self.paths.list.main_mut().remote_cids.take(PREFERRED_SEQUENCE) else { return };
        self.probe(now, FourTuple { local: current.local, remote }, PREFERRED_SEQUENCE, dcid);
    }

    /// Counts a 1-RTT packet on the path. Returns the peer's move if the packet arrived between other
    /// addresses than the path's, and is the newest one with non-probing frames (RFC 9000 §9.3). Probing
    /// packets do not move the path, because the peer may also send a PATH_RESPONSE from an address that it
    /// has left.
    #[inline]
    pub(super) fn note_data_packet(
        now: Time,
        path: &mut Path,
        context: &Context<'_>,
        probing: bool,
    ) -> Option<Moved> {
        if context.kind != PacketKind::OneRtt || path.is_abandoned() {
            return None;
        }
        path.counters.on_data_packet(now, context.number, path.numbers.largest);
        path.numbers.largest = path.numbers.largest.max(Some(context.number));
        if probing || path.numbers.largest_moving.is_some_and(|largest| context.number <= largest) {
            return None;
        }
        path.numbers.largest_moving = Some(context.number);
        if context.is_usual {
            return None;
        }
        let changed_cid = path.used_local_cid != *context.dcid;
        if changed_cid {
            path.used_local_cid = *context.dcid;
        }
        (path.tuple != *context.tuple).then_some(Moved { changed_cid })
    }

    /// Moves the path to the address from which the peer now sends.
    pub(super) fn follow_peer(&mut self, now: Time, context: &Context<'_>, Moved { changed_cid }: Moved) {
        if self.waits_for_preferred(now, context) {
            return;
        }
        self.paths.uncount_elsewhere(context.path, context.tuple, context.datagram_len);
        let Some(path) = self.paths.list.get_mut(context.path) else { return };
        let old = path.tuple;
        let returning =
            path.address.previous.as_deref().copied().filter(|previous| previous.tuple == *context.tuple);
        if path.address.validated {
            let dcid_sequence = path.remote_cids.active_seq();
            path.address.previous = Some(Box::new(Previous { tuple: old, dcid_sequence }));
        }
        path.tuple = *context.tuple;
        path.address.validated = returning.is_some();
        path.address.received = context.datagram_len as u64;
        path.address.sent = 0;
        if changed_cid {
            self.paths.stock(context.path);
            let Some(path) = self.paths.list.get_mut(context.path) else { return };
            // RFC 9000 §9.5: packets to another address of the peer use another connection ID.
            path.switch_cid_for(context.tuple);
        }
        let Some(path) = self.paths.list.get_mut(context.path) else { return };
        // RFC 9000 §9.4: if only the port changed, this is most likely NAT rebinding on the same network
        // path.
        let same_path =
            old.remote.ip() == context.tuple.remote.ip() && old.local.ip() == context.tuple.local.ip();
        if !same_path {
            path.recovery.migrate(now);
        }
        path.recovery.amplification_blocked(path.is_amplification_blocked());
        let dcid = path.remote_cids.active();
        path.cancel_validations(|one| {
            matches!(one.purpose, Purpose::Confirm | Purpose::Life | Purpose::Move { .. })
        });
        let (validated, previous) = (path.address.validated, path.address.previous.as_deref().copied());
        let previous =
            previous.map(|previous| (previous.tuple, path.remote_cids.get(previous.dcid_sequence)));
        if returning.is_none() {
            self.paths.validate(now, context.path, *context.tuple, dcid, Purpose::Confirm);
            if let Some((tuple, previous_dcid)) = previous {
                // RFC 9000 §9.3.3: an attacker may have forwarded packets to simulate a move, so the previous
                // address is validated again. It receives a challenge only if it was validated; otherwise the
                // challenges themselves could be abused for an attack.
                self.paths.validate(
                    now,
                    context.path,
                    tuple,
                    previous_dcid.unwrap_or(dcid),
                    Purpose::Previous,
                );
            }
        }
        let assigned = TraceEvent::PathAssigned { path: context.path, tuple: *context.tuple, validated };
        self.trace(now, &assigned);
        if validated {
            self.output.events.push_back(Event::PathChanged { path: context.path, tuple: *context.tuple });
        }
    }

    /// Returns whether the client has moved to this server's preferred address only. The server then sends
    /// from its original address until the path is validated (RFC 9000 §9.6.2), which this method begins.
    fn waits_for_preferred(&mut self, now: Time, context: &Context<'_>) -> bool {
        let tuple = *context.tuple;
        if !self.is_preferred(tuple.local) {
            return false;
        }
        self.paths.stock(context.path);
        let Some(path) = self.paths.list.get_mut(context.path) else { return false };
        if !path.address.validated || path.tuple.remote != tuple.remote || path.tuple.local == tuple.local {
            return false;
        }
        if !path.address.validations.iter().any(|one| one.tuple == tuple) {
            let (sequence, dcid) = path.reserve_cid_for(&tuple);
            self.paths.validate(now, context.path, tuple, dcid, Purpose::Move { sequence });
        }
        true
    }

    /// Handles a PATH_RESPONSE: validates the addresses to which its PATH_CHALLENGE was sent, regardless of
    /// the path on which the response arrived (RFC 9000 §8.2.3).
    pub(super) fn on_path_response(&mut self, now: Time, via: PathId, data: [u8; 8]) {
        let found = self.paths.list.iter().find_map(|path| {
            let mut validations = path.address.validations.iter().enumerate();
            validations.find_map(|(at, validation)| Some((path.id, at, validation.answered_by(data)?)))
        });
        // A response to a challenge that is no longer pending is late, not invalid.
        let Some((id, at, asked)) = found else { return };
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let validation = path.address.validations.remove(at);
        if validation.tuple == path.tuple {
            // The response is also an RTT sample, if the path has none yet, or if the path is failing,
            // because its acknowledgments then return on other paths.
            let unmeasured = !path.recovery.rtt().has_sample() || validation.purpose == Purpose::Life;
            if via == id && unmeasured {
                path.recovery.on_round_trip(now, now - asked);
            }
            self.paths.on_path_answers(now, id);
        }
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let mut opened = false;
        match validation.purpose {
            Purpose::Confirm if validation.tuple == path.tuple => {
                // The server may have gone back to the addresses that the client has left, because this validation's counterpart
                // failed. A packet with a non-probing frame moves it once more (RFC 9000 §9.3).
                path.ping |= path.address.chose_local && path.phase != Phase::Opening;
                path.set_validated();
                path.forget_previous();
                path.address.validations.retain(|other| other.purpose != Purpose::Previous);
                let padded = validation.padded;
                opened = self.on_path_validated(now, id);
                if !padded {
                    // RFC 9000 §8.2.1: it is not proven yet that full-size datagrams arrive.
                    self.paths.validate(now, id, validation.tuple, validation.dcid, Purpose::Size);
                }
            }
            Purpose::Move { sequence } | Purpose::Rescue { sequence } => {
                let old = path.remote_cids.active_seq();
                if path.remote_cids.get(sequence).is_none() {
                    return; // The server had the connection ID retired meanwhile: the response is ignored.
                }
                let silent = matches!(validation.purpose, Purpose::Rescue { .. });
                let left = std::mem::replace(&mut path.tuple, validation.tuple);
                path.address.previous = Some(Box::new(Previous { tuple: left, dcid_sequence: old }));
                path.address.chose_local = true;
                // The server moves the path when a packet with a non-probing frame arrives (RFC 9000 §9.3).
                path.ping = true;
                if path.remote_cids.activate(sequence) && sequence != old {
                    path.remote_cids.retire(old);
                }
                path.set_validated();
                // Validations of the old addresses are no longer needed, even if the path was being opened
                // there.
                path.address
                    .validations
                    .retain(|other| !matches!(other.purpose, Purpose::Confirm | Purpose::Size));
                self.cancel_overtaken(id, &left);
                if silent {
                    self.leave_behind(now, id);
                }
                if let Some(path) = self.paths.list.get_mut(id) {
                    path.recovery.migrate(now);
                    path.recovery.on_round_trip(now, now - asked);
                }
                self.on_path_validated(now, id);
            }
            Purpose::Confirm | Purpose::Previous | Purpose::Size | Purpose::Life => return,
        }
        let Some(tuple) = self.paths.list.get(id).map(|path| path.tuple) else { return };
        self.collect_reset_tokens();
        self.trace(now, &TraceEvent::PathAssigned { path: id, tuple, validated: true });
        if !opened {
            self.output.events.push_back(Event::PathChanged { path: id, tuple });
        }
    }

    /// Cancels what the path's move from the addresses `left` has overtaken: the search for other addresses,
    /// moves to the server's original address if the path has moved to its preferred one (RFC 9000 §9.6.3),
    /// and moves from a local address that the path has left.
    pub(super) fn cancel_overtaken(&mut self, id: PathId, left: &FourTuple) {
        self.cancel_rescues(id);
        let Some(tuple) = self.paths.list.get(id).map(|path| path.tuple) else { return };
        let has_preferred = tuple.remote != left.remote && self.is_preferred(tuple.remote);
        let has_local = tuple.local != left.local;
        if let Some(path) = self.paths.list.get_mut(id) {
            path.cancel_validations(|one| {
                matches!(one.purpose, Purpose::Move { .. })
                    && (has_preferred && one.tuple.remote == left.remote
                        || has_local && one.tuple.local == left.local)
            });
        }
    }

    /// Handles validations that have timed out.
    pub(super) fn expire_validations(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let Some(at) = path.address.validations.iter().position(|validation| validation.has_failed(now))
        else {
            return;
        };
        let failed = path.address.validations.remove(at);
        match failed.purpose {
            Purpose::Move { sequence } | Purpose::Rescue { sequence } => path.remote_cids.retire(sequence),
            Purpose::Previous | Purpose::Size | Purpose::Life => {}
            Purpose::Confirm => self.return_or_retry(now, id),
        }
        self.expire_validations(now, id);
    }

    /// Moves the path back to its previous address because the new one does not respond (RFC 9000 §9.3.2).
    /// Without a previous address, the challenges continue until the idle timeout. A path that is being
    /// opened is handled by [`Self::on_opening_failed`].
    fn return_or_retry(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if path.phase == Phase::Opening {
            return self.on_opening_failed(now, id);
        }
        let Some(previous) = path.address.previous.take() else {
            let (tuple, dcid) = (path.tuple, path.remote_cids.active());
            return self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        };
        path.tuple = previous.tuple;
        let abandoned = path.remote_cids.active_seq();
        if path.remote_cids.activate(previous.dcid_sequence) && abandoned != previous.dcid_sequence {
            path.remote_cids.retire(abandoned);
        }
        path.recovery.migrate(now);
        path.set_validated();
        let tuple = path.tuple;
        self.trace(now, &TraceEvent::PathAssigned { path: id, tuple, validated: true });
        self.output.events.push_back(Event::PathChanged { path: id, tuple });
    }
}

/// Sequence number of the preferred address's connection ID (RFC 9000 §5.1.1).
const PREFERRED_SEQUENCE: u64 = 1;
