//! Changes of a client's network: addresses and routes that appear and disappear, networks that stop
//! responding (RFC 9000 §9).
//!
//! The core makes no decisions here, because it does not know the host's interfaces. It reports to its driver
//! when the main path is silent, and carries out the driver's decision. Either it moves the path at once, or
//! it sends challenges on other addresses and moves the path to those on which the server responds.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_wire::{PathId, SpaceId, Time};

use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::error::{ConnectionError, Obstacle};
use crate::event::Event;
use crate::path::{MAX_VALIDATIONS, MigrateError, Purpose, Validation, may_follow};
use crate::trace::TraceEvent;

/// Maximum interval between two challenges on addresses that are to replace those of a silent path, unless
/// the path's probe timeout is longer.
const RESCUE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of other addresses that are probed at the same time for a silent path. One of
/// [`MAX_VALIDATIONS`] remains for the path's own addresses.
pub(crate) const MAX_RESCUES: usize = MAX_VALIDATIONS - 1;

impl Connection {
    /// Client: enables [`Event::PathSilent`] events when the main path falls silent. If data stops arriving,
    /// the client sends one probe after a probe timeout. Even an endpoint that only receives thus notices the
    /// silence.
    pub fn watch_silence(&mut self, watches: bool) {
        self.roaming.watches = watches && self.side.is_client();
    }

    /// Client: moves the main path to `local` at once. This is intended for an old local address that is
    /// gone, or from which packets can no longer be sent. RFC 9000 §9.2 allows this because the server's
    /// address does not change. Data in flight is sent again. The new addresses are validated meanwhile.
    ///
    /// # Errors
    /// Fails if migration is forbidden, or impossible at present. The connection then continues unchanged.
    pub fn relocate(&mut self, now: Time, local: SocketAddr) -> Result<(), MigrateError> {
        self.may_migrate()?;
        let (id, old) = (self.paths.list.main().id, self.paths.list.main().tuple);
        let tuple = FourTuple { local, ..old };
        if tuple == old {
            self.try_again(now);
            return Ok(());
        }
        let (sequence, dcid) = self.paths.take_cid_for(&tuple)?;
        self.cancel_rescues(id);
        self.leave_behind(now, id);
        self.route_tuple(tuple);
        let Some(path) = self.paths.list.get_mut(id) else { return Ok(()) };
        path.forget_previous();
        let before = path.remote_cids.active_seq();
        if path.remote_cids.activate(sequence) && before != sequence {
            path.remote_cids.retire(before);
        }
        path.address.validations.retain(|one| one.taken().is_some());
        path.tuple = tuple;
        path.address.chose_local = true;
        // The server moves the path when a packet with a non-probing frame arrives (RFC 9000 §9.3).
        path.ping = true;
        path.recovery.migrate(now);
        self.cancel_overtaken(id, &old);
        self.collect_reset_tokens();
        self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        self.trace(now, &TraceEvent::PathAssigned { path: id, tuple, validated: false });
        Ok(())
    }

    /// Client: sends challenges on `tuple` for the main path. If the server responds there while nothing
    /// arrives between the path's own addresses, the path moves ([`Event::PathChanged`]). The challenges are
    /// repeated until a packet arrives between the path's own addresses, or the path has moved. The remote
    /// address must be known to belong to the server. Has no effect if `tuple` is already being validated, or
    /// if too many other addresses are.
    ///
    /// # Errors
    /// Fails if migration is forbidden, or impossible at present. The connection then continues unchanged.
    pub fn rescue(&mut self, now: Time, tuple: FourTuple) -> Result<(), MigrateError> {
        self.may_migrate()?;
        let path = self.paths.list.main();
        let rescues = |one: &&Validation| matches!(one.purpose, Purpose::Rescue { .. });
        let asked = path.tuple == tuple || path.address.validations.iter().any(|one| one.tuple == tuple);
        if asked || path.address.validations.iter().filter(rescues).count() >= MAX_RESCUES {
            return Ok(());
        }
        let pto = path.recovery.rtt().pto_base();
        let (sequence, dcid) = self.paths.take_cid_for(&tuple)?;
        self.route_tuple(tuple);
        let intervals = (pto, RESCUE_INTERVAL);
        self.paths
            .list
            .main_mut()
            .begin_validation(Validation::of_rescue(now, tuple, dcid, sequence, intervals));
        self.roaming.rescues = true;
        Ok(())
    }

    /// Client: moves the path like [`Connection::migrate`], but possibly to another address of the server.
    /// The remote address must be known to belong to the server.
    ///
    /// # Errors
    /// Fails if migration is forbidden, or impossible at present. The connection then continues unchanged.
    pub fn migrate_to(&mut self, now: Time, tuple: FourTuple) -> Result<(), MigrateError> {
        self.may_migrate()?;
        let path = self.paths.list.main();
        if path.tuple == tuple || path.address.validations.iter().any(|one| one.tuple == tuple) {
            return Ok(());
        }
        let (sequence, dcid) = self.paths.take_cid_for(&tuple)?;
        self.route_tuple(tuple);
        let id = self.paths.list.main().id;
        self.paths.validate(now, id, tuple, dcid, Purpose::Move { sequence });
        Ok(())
    }

    /// Sends unacknowledged packets again at once, without waiting for the backed-off probe timeout, because
    /// the network may have returned. Has no effect if no probe timeout has occurred.
    pub fn try_again(&mut self, now: Time) {
        if self.paths.list.main().recovery.pto_count() > 0 {
            self.ask_again(now);
        }
    }

    pub(super) fn ask_again(&mut self, now: Time) {
        let path = self.paths.list.main_mut();
        path.recovery.forget_backoff();
        path.ping |= self.handshake.progress.confirmed;
        path.address.validations.iter_mut().for_each(|one| one.hurry(now));
    }

    /// Client: ends the connection if no packet of the server has ever arrived. This is intended for a host
    /// that cannot send to the server, and for a server's host that refuses packets. A connection on which
    /// packets have arrived continues, because messages about such errors can be forged (RFC 9000 §21.6).
    /// Returns whether the connection ended.
    pub fn refuse(&mut self, now: Time, obstacle: Obstacle) -> bool {
        let never = self.side.is_client() && !self.handshake.progress.complete && self.idle.heard().is_none();
        if never && self.state.is_active() {
            self.end_silently(now, ConnectionError::Unreachable(obstacle));
            return true;
        }
        false
    }

    /// Client: returns the other addresses that the server has announced itself: the preferred ones of both
    /// families (RFC 9000 §9.6), and the alternative ones.
    pub fn other_addresses(&self) -> Vec<SocketAddr> {
        let current = self.paths.list.main().tuple.remote;
        let preferred = self.handshake.peer_parameters.as_ref().and_then(|p| p.preferred_address.as_ref());
        let v4 = preferred.and_then(|preferred| preferred.v4).map(SocketAddr::V4);
        let v6 = preferred.and_then(|preferred| preferred.v6).map(SocketAddr::V6);
        let announced = self.paths.server_addresses().into_iter().map(|known| known.address);
        let all = v4.into_iter().chain(v6).chain(announced);
        all.filter(|other| *other != current && may_follow(&current, other)).collect()
    }

    /// Declares all data in flight lost, because the path leaves addresses that do not work.
    pub(super) fn leave_behind(&mut self, now: Time, id: PathId) {
        let mut outcome = std::mem::take(&mut self.outcome);
        if let Some(path) = self.paths.list.get_mut(id) {
            path.recovery.lose_all(SpaceId::Data, &mut outcome);
        }
        self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
        self.outcome = outcome;
    }

    /// Cancels the validation of other addresses if an authentic packet arrived between the path's own
    /// addresses.
    #[inline(always)]
    pub(super) fn on_heard_between(&mut self, id: PathId, tuple: &FourTuple) {
        if self.roaming.rescues && self.paths.list.get(id).is_some_and(|path| path.tuple == *tuple) {
            self.cancel_rescues(id);
        }
    }

    /// Cancels the validation of other addresses for a silent path.
    pub(super) fn cancel_rescues(&mut self, id: PathId) {
        self.roaming.rescues = false;
        if let Some(path) = self.paths.list.get_mut(id) {
            path.cancel_validations(|one| matches!(one.purpose, Purpose::Rescue { .. }));
        }
    }

    /// Returns the time at which the path is probed because data has stopped arriving.
    #[inline]
    pub(super) fn quiet_timeout(&self) -> Option<Time> {
        if !self.roaming.watches || !self.handshake.progress.confirmed {
            return None;
        }
        let heard = self.idle.heard().filter(|_| self.streams.bytes_received() != self.roaming.traffic)?;
        Some(heard + self.paths.list.main().recovery.pto(SpaceId::Data))
    }

    pub(super) fn expire_quiet(&mut self, now: Time) {
        if self.quiet_timeout().is_some_and(|time| now >= time) {
            self.roaming.traffic = self.streams.bytes_received();
            self.paths.list.main_mut().ping = true;
        }
    }

    /// Handles a probe timeout of the path. If nothing has arrived for long enough and no other path works,
    /// notifies the driver, because it may know another address. The timeout alone does not mean silence: if
    /// a queue fills up, the round-trip time exceeds any earlier estimate although packets still arrive.
    pub(super) fn report_silence(&mut self, now: Time, space: SpaceId, id: PathId) {
        if !self.roaming.watches || space != SpaceId::Data || self.paths.list.main().id != id {
            return;
        }
        match self.idle.heard() {
            Some(heard) if now < heard + self.paths.least_silence() => self.roaming.suspected = Some(heard),
            _ => self.tell_silence(),
        }
    }

    fn tell_silence(&mut self) {
        self.roaming.suspected = None;
        let id = self.paths.list.main().id;
        let works = |other: &crate::path::Path| other.id != id && other.is_usable() && !other.is_failing;
        if self.state.is_active() && !self.paths.list.iter().any(works) {
            self.output.events.push_back(Event::PathSilent(id));
        }
    }

    /// Returns the time at which a suspected silence is reported. A packet that arrives before that time ends
    /// the suspicion.
    #[inline]
    pub(super) fn silence_timeout(&self) -> Option<Time> {
        let heard = self.roaming.suspected.filter(|_| self.roaming.suspected == self.idle.heard())?;
        Some(heard + self.paths.least_silence())
    }

    pub(super) fn expire_silence(&mut self, now: Time) {
        if self.silence_timeout().is_some_and(|time| now >= time) {
            self.tell_silence();
        }
    }
}
