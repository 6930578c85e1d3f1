//! A client whose host changes under it: addresses and routes that come and go, networks that fall silent
//! (RFC 9000 §9).
//!
//! The core decides nothing about that, because it knows no interfaces. It tells its driver when the main
//! path is silent, and does as it is told: goes on elsewhere at once, or asks elsewhere and goes on where an
//! answer comes from.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_wire::{PathId, SpaceId, Time};

use crate::connection::connection::Connection;
use crate::datagram_io::FourTuple;
use crate::error::{ConnectionError, Obstacle};
use crate::event::Event;
use crate::path::{MAX_VALIDATIONS, MigrateError, Purpose, Validation, may_follow};
use crate::trace::TraceEvent;

/// Longest time between two challenges to addresses that are to take over a silent path, unless the probe
/// timeout is longer.
const RESCUE_INTERVAL: Duration = Duration::from_secs(1);
/// Addresses that are asked at the same time for one silent path; the rest of the validations is for its own
/// addresses.
pub(crate) const MAX_RESCUES: usize = MAX_VALIDATIONS - 1;

impl Connection {
    /// Client: tells from now on with [`Event::PathSilent`] when the main path falls silent. An end that only
    /// receives learns of that because it asks once, a probe timeout after data has ceased to come.
    pub fn watch_silence(&mut self, watches: bool) {
        self.roaming.watches = watches && self.side.is_client();
    }

    /// Client: moves the main path to `local` at once, because the address that it begins at is gone, or
    /// packets do not leave from it any longer. RFC 9000 §9.2 allows that because the server's address is the
    /// one that it knows. Data under way is sent again. The new addresses are validated meanwhile.
    ///
    /// # Errors
    /// If migration is not possible now or ever; the connection goes on as it was.
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
        // The server follows the first packet that does more than probe (RFC 9000 §9.3).
        path.ping = true;
        path.recovery.migrate(now);
        self.collect_reset_tokens();
        self.paths.validate(now, id, tuple, dcid, Purpose::Confirm);
        self.trace(now, &TraceEvent::PathAssigned { path: id, tuple, validated: false });
        Ok(())
    }

    /// Client: asks for the main path whether the server answers on `tuple`, and moves there if it does while
    /// nothing comes on the path's own addresses ([`Event::PathChanged`] tells). It is asked until the path
    /// answers. The remote address has to be one that belongs to the server for sure. Does nothing if that is
    /// under way, or if too many addresses are asked already.
    ///
    /// # Errors
    /// If migration is not possible now or ever; the connection goes on as it was.
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
        let intervals = (pto.min(RESCUE_INTERVAL), RESCUE_INTERVAL);
        self.paths
            .list
            .main_mut()
            .replace_validation(Validation::of_rescue(now, tuple, dcid, sequence, intervals));
        self.roaming.rescues = true;
        Ok(())
    }

    /// Client: moves like [`Connection::migrate`], to another address of the server as well, which has to
    /// belong to it for sure.
    ///
    /// # Errors
    /// If migration is not possible now or ever; the connection goes on as it was.
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

    /// Sends unanswered packets again at once, because the network may be there again, and not when the
    /// backoff of the time without one is over. Does nothing if nothing waits for that.
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

    /// Client: ends a connection whose server has never answered, because the host cannot send to the server,
    /// or the server's host refuses packets. Other connections go on, because anybody can forge such messages
    /// (RFC 9000 §21.6). Returns whether the connection ended.
    pub fn refuse(&mut self, now: Time, obstacle: Obstacle) -> bool {
        let never = self.side.is_client() && !self.handshake.progress.complete && self.idle.heard().is_none();
        if never && self.state.is_active() {
            self.end_silently(now, ConnectionError::Unreachable(obstacle));
            return true;
        }
        false
    }

    /// Client: addresses of the server beside the one in use that it has told itself: preferred ones (RFC
    /// 9000 §9.6), of either family, and announced ones.
    pub fn other_addresses(&self) -> Vec<SocketAddr> {
        let current = self.paths.list.main().tuple.remote;
        let preferred = self.handshake.peer_parameters.as_ref().and_then(|p| p.preferred_address.as_ref());
        let v4 = preferred.and_then(|preferred| preferred.v4).map(SocketAddr::V4);
        let v6 = preferred.and_then(|preferred| preferred.v6).map(SocketAddr::V6);
        let announced = self.paths.server_addresses().into_iter().map(|known| known.address);
        let all = v4.into_iter().chain(v6).chain(announced);
        all.filter(|other| *other != current && may_follow(&current, other)).collect()
    }

    /// Declares all data under way lost, because the path leaves addresses that do not work.
    pub(super) fn leave_behind(&mut self, now: Time, id: PathId) {
        let mut outcome = std::mem::take(&mut self.outcome);
        if let Some(path) = self.paths.list.get_mut(id) {
            path.recovery.lose_all(SpaceId::Data, &mut outcome);
        }
        self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
        self.outcome = outcome;
    }

    /// Cancels the search for other addresses if an authentic packet arrived between those that the path runs
    /// over.
    #[inline(always)]
    pub(super) fn on_heard_between(&mut self, id: PathId, tuple: &FourTuple) {
        if self.roaming.rescues && self.paths.list.get(id).is_some_and(|path| path.tuple == *tuple) {
            self.cancel_rescues(id);
        }
    }

    /// Cancels the validation of other addresses.
    pub(super) fn cancel_rescues(&mut self, id: PathId) {
        self.roaming.rescues = false;
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let is_rescue = |one: &Validation| matches!(one.purpose, Purpose::Rescue { .. });
        while let Some(at) = path.address.validations.iter().position(is_rescue) {
            let over = path.address.validations.remove(at);
            if let Some(sequence) = over.taken() {
                path.remote_cids.retire(sequence);
            }
        }
    }

    /// Returns the time at which the path is probed because data has ceased to arrive.
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

    /// Reports that a probe timeout of the path is over. That alone is no silence: a queue that fills makes
    /// round trips longer than any timeout that was right before, while packets go on to arrive. Another path
    /// that works makes up for it, and otherwise the driver may know of another address.
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

    /// Returns the time at which a suspected silence counts as one. A packet that arrives before ends the
    /// suspicion.
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
