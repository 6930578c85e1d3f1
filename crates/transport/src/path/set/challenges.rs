//! Path validations: which challenges are due, and how validations begin.

use anabranch_wire::{ConnectionId, PathId, SpaceId, Time};

use super::PathSet;
use crate::datagram_io::FourTuple;
use crate::path::{MIN_VALIDATION_ROOM, Path, Purpose, Validation};

/// PTO of an unknown network path in multiples of the initial RTT: the RTT plus four times its variation,
/// which is initially half the RTT (RFC 9002 §6.2.2).
pub(crate) const UNKNOWN_PTO_RTTS: u32 = 3;

impl PathSet {
    /// Returns the addresses of the next validation datagram, the connection ID to use, and the maximum size
    /// in bytes.
    pub(crate) fn next_validation(
        &mut self,
        now: Time,
        id: PathId,
    ) -> Option<(FourTuple, ConnectionId, u64)> {
        let strange = |path: &Path| path.needs_cid_for_others();
        if self.numbering.is_single() && self.list.get(id).is_some_and(strange) {
            self.stock(id);
        }
        let path = self.list.get_mut(id).filter(|path| !path.is_abandoned() && !path.is_socket_blocked)?;
        let budget = path.challenge_budget();
        let budget_for = |tuple: &FourTuple| if *tuple == path.tuple { budget } else { u64::MAX };
        let due = path.address.validations.iter().find(|validation| {
            validation.challenge_due(now) && budget_for(&validation.tuple) >= MIN_VALIDATION_ROOM
        });
        if let Some(tuple) = due.map(|validation| validation.tuple) {
            let budget = budget_for(&tuple);
            let dcid = if tuple == path.tuple { path.remote_cids.active() } else { path.cid_for(&tuple) };
            return Some((tuple, dcid, budget));
        }
        // Congestion control may delay a response (RFC 9000 §8.2.2), which bounds the responses to a flood of
        // challenges. One response per probe timeout is exempt, as probes are. Otherwise a peer that must not
        // send more until it has the response could acknowledge nothing, and the window would stay full.
        let has_room = path.recovery.has_room();
        let open = || budget >= MIN_VALIDATION_ROOM && (has_room || path.address.probe_response);
        let response =
            path.address.responses.iter().find(|response| response.tuple != path.tuple || open())?;
        if response.tuple == path.tuple {
            path.address.probe_response &= has_room;
            return Some((path.tuple, path.remote_cids.active(), budget));
        }
        let budget = response.received as u64 * crate::path::AMPLIFICATION_FACTOR;
        let tuple = response.tuple;
        Some((tuple, path.cid_for(&tuple), budget))
    }

    /// Begins a validation of `tuple` on path `id`.
    pub(crate) fn validate(
        &mut self,
        now: Time,
        id: PathId,
        tuple: FourTuple,
        dcid: ConnectionId,
        purpose: Purpose,
    ) {
        let unknown = self.config.recovery.initial_rtt() * UNKNOWN_PTO_RTTS;
        let Some(path) = self.list.get_mut(id) else { return };
        let pto = path.recovery.pto(SpaceId::Data);
        path.begin_validation(Validation::new(now, tuple, dcid, purpose, pto, unknown));
    }
}
