//! One path: its addresses, recovery, received packets and connection IDs.

use anabranch_recovery::{Recovery, State};
use anabranch_wire::{ConnectionId, PathId, Time};

use super::address::{AddressState, SideCid};
use super::cids::{LocalCids, RemoteCids};
use super::closure::Closure;
use super::counters::{PathCounters, PathNumbers};
use super::status::Statuses;
use super::validation::Validation;
use crate::config::AckConfig;
use crate::datagram_io::FourTuple;
use crate::space::Received;
use crate::token::Tokens;

/// An endpoint sends at most this many times what it received to an address that is not validated (RFC 9000
/// §8.1).
pub(crate) const AMPLIFICATION_FACTOR: u64 = 3;

/// Phase of a path's life (RFC 10069 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer has not answered on it yet.
    Opening,
    /// In use.
    Open,
    /// Given up; what is under way on it is still understood until then.
    Abandoned {
        /// Time at which the path is forgotten; `None` until the peer has said that it gives the path up,
        /// too.
        until: Option<Time>,
    },
}

/// One path of a connection, keyed by its ID; a new four-tuple under the same ID is a migration.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) tuple: FourTuple,
    pub(crate) phase: Phase,
    /// Time at which the path's local connection IDs were last changed, and the number of 1-RTT packets
    /// received by then.
    pub(crate) cids_since: Option<(Time, u64)>,
    /// Time and reason for which the path was given up.
    pub(crate) closure: Option<Closure>,
    pub(crate) status: Statuses,
    /// The peer owes an answer for too long: other paths stand in for it.
    pub(crate) is_failing: bool,
    /// The socket of its local address is full.
    pub(crate) is_socket_blocked: bool,
    pub(crate) address: AddressState,
    pub(crate) recovery: Recovery<Tokens>,
    /// 0-RTT and 1-RTT packets received.
    pub(crate) received: Received,
    pub(crate) local_cids: LocalCids,
    pub(crate) remote_cids: RemoteCids,
    /// The congestion controller's state that was traced last.
    pub(crate) traced_state: Option<State>,
    pub(crate) numbers: PathNumbers,
    /// The pacer lets nothing out before this time, and there is something to send.
    pub(crate) paced_until: Option<Time>,
    /// Packets sent in a row that the peer need not acknowledge.
    pub(crate) ack_only_run: u32,
    /// A PING is to be sent.
    pub(crate) ping: bool,
    /// The local connection ID that the peer used last.
    pub(crate) used_local_cid: ConnectionId,
    pub(crate) counters: PathCounters,
}

/// Room below which no packet is begun in a datagram.
pub(crate) const MIN_PACKET_ROOM: usize = 128;

/// Bytes that a packet with a PATH_CHALLENGE takes at most: header, frame, tag. RFC 9000 §8.2.1 has it
/// expanded to 1200 bytes unless the amplification limit is lower. Three times the smallest packet is more: a
/// peer that has nothing to send but a PING from where it is now can be asked there.
pub(crate) const MIN_VALIDATION_ROOM: u64 = 60;

/// Bytes of a datagram with a PATH_CHALLENGE (RFC 9000 §8.2.1).
const FULL_CHALLENGE: u64 = 1200;

/// Bytes that an acknowledgment and a PATH_CHALLENGE share where the amplification limit allows no datagram
/// of 1200 bytes.
const SHORT_CHALLENGE: u64 = 120;

/// Bytes of the amplification limit that data leaves to the challenges of the path's own address: without
/// them a peer that only receives, and whose responses were lost, would never be asked again.
const CHALLENGE_RESERVE: u64 = 4 * SHORT_CHALLENGE;

/// Validations under way at the same time on one path.
pub(crate) const MAX_VALIDATIONS: usize = 4;

/// Connection IDs of a path that begins.
#[derive(Debug)]
pub(crate) struct PathCids {
    /// IDs that this end has issued.
    pub(crate) local: LocalCids,
    /// IDs that the peer has issued.
    pub(crate) remote: RemoteCids,
    /// ID among `local` that the peer uses.
    pub(crate) used_local: ConnectionId,
}

impl Path {
    pub(crate) fn new(
        id: PathId,
        tuple: FourTuple,
        recovery: Recovery<Tokens>,
        cids: PathCids,
        ack: &AckConfig,
    ) -> Self {
        let PathCids { local: local_cids, remote: remote_cids, used_local: local_cid } = cids;
        Self {
            id,
            tuple,
            phase: Phase::Open,
            cids_since: None,
            closure: None,
            is_failing: false,
            is_socket_blocked: false,
            recovery,
            received: Received::new(id, ack),
            local_cids,
            remote_cids,
            traced_state: None,
            paced_until: None,
            ack_only_run: 0,
            ping: false,
            used_local_cid: local_cid,
            status: Statuses::new(),
            address: AddressState::default(),
            numbers: PathNumbers::default(),
            counters: PathCounters::default(),
        }
    }

    /// Returns whether the path is given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.phase, Phase::Abandoned { .. })
    }

    /// Returns whether the path is given up and can be forgotten.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Abandoned { until: Some(until) } if now >= until)
    }

    /// Reports whether data sent on the path can be expected to arrive.
    pub(crate) fn is_working(&self) -> bool {
        self.is_usable() && !self.is_failing && !self.is_amplification_blocked()
    }

    /// Returns whether packets with data may be sent on the path.
    pub(crate) fn is_usable(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns whether both ends want to use the path like others.
    pub(crate) fn is_available(&self) -> bool {
        self.status.local.available && self.status.peer.available
    }

    /// Returns the bytes that may still be sent before the peer's address is validated; `u64::MAX` once it
    /// is.
    pub(crate) fn amplification_budget(&self) -> u64 {
        if self.address.validated {
            return u64::MAX;
        }
        (self.address.received * AMPLIFICATION_FACTOR).saturating_sub(self.address.sent)
    }

    /// Returns the bytes of [`Self::amplification_budget`] that ordinary packets may use.
    pub(crate) fn data_budget(&self) -> u64 {
        let asked =
            !self.address.validated && self.address.validations.iter().any(|one| one.tuple == self.tuple);
        self.amplification_budget().saturating_sub(if asked { CHALLENGE_RESERVE } else { 0 })
    }

    /// Returns the byte limit of the next datagram with a PATH_CHALLENGE to the path's own address. It is
    /// 1200 or more, or else a part of the amplification limit. The rest allows another challenge if no
    /// response arrives (RFC 9000 §8.2.1).
    pub(crate) fn challenge_budget(&self) -> u64 {
        match self.amplification_budget() {
            budget if budget >= FULL_CHALLENGE => budget,
            budget => budget.min(SHORT_CHALLENGE.max(budget / 4)),
        }
    }

    /// Returns whether ordinary packets have to wait until more bytes are received.
    pub(crate) fn is_amplification_blocked(&self) -> bool {
        self.data_budget() < MIN_PACKET_ROOM as u64
    }

    /// Returns the time at which an acknowledgment must be sent; `None` while the amplification limit blocks
    /// it.
    pub(crate) fn ack_timeout(&self) -> Option<Time> {
        self.received.ack.ack_deadline().filter(|_| !self.is_amplification_blocked())
    }

    /// Counts a datagram that arrived on `tuple`.
    pub(crate) fn on_datagram_received(&mut self, len: usize) {
        self.counters.bytes_received += len as u64;
        self.counters.datagrams_received += 1;
        if !self.address.validated {
            self.address.received += len as u64;
            self.recovery.amplification_blocked(self.is_amplification_blocked());
        }
    }

    /// Stops counting a datagram that was counted here and belongs to another path.
    pub(crate) fn uncount_datagram(&mut self, len: usize) {
        self.counters.bytes_received = self.counters.bytes_received.saturating_sub(len as u64);
        self.counters.datagrams_received = self.counters.datagrams_received.saturating_sub(1);
        self.address.received = self.address.received.saturating_sub(len as u64);
        self.recovery.amplification_blocked(self.is_amplification_blocked());
    }

    /// Counts a datagram that was sent on `tuple`.
    pub(crate) fn on_datagram_sent(&mut self, len: usize) {
        self.counters.bytes_sent += len as u64;
        self.counters.datagrams_sent += 1;
        if !self.address.validated {
            self.address.sent += len as u64;
            self.recovery.amplification_blocked(self.is_amplification_blocked());
        }
    }

    /// Marks the peer's address as validated: the peer receives at `tuple`.
    pub(crate) fn set_validated(&mut self) {
        self.address.validated = true;
        self.recovery.amplification_blocked(false);
    }

    /// Adds a validation. One of the same tuple, or else the oldest when there are too many, gives way and is
    /// returned.
    pub(crate) fn begin_validation(&mut self, validation: Validation) -> Option<Validation> {
        let same = self.address.validations.iter().position(|other| other.tuple == validation.tuple);
        let at = same.or((self.address.validations.len() == MAX_VALIDATIONS).then_some(0));
        let displaced = at.map(|at| self.address.validations.remove(at));
        self.address.validations.push(validation);
        displaced
    }

    /// Adds a validation; the connection ID goes that one in its place had for itself.
    pub(crate) fn replace_validation(&mut self, validation: Validation) {
        let displaced = self.begin_validation(validation);
        if let Some(sequence) = displaced.and_then(|displaced| displaced.taken()) {
            self.remote_cids.retire(sequence);
        }
    }

    /// Forgets the previous addresses and retires their connection ID, because the path does not return to
    /// them.
    pub(crate) fn forget_previous(&mut self) {
        if let Some(previous) = self.address.previous.take() {
            self.remote_cids.retire(previous.dcid_sequence);
        }
    }

    /// Returns the peer's connection ID for packets to `tuple`: not the one in use, as far as there are
    /// others.
    pub(crate) fn cid_for(&mut self, tuple: &FourTuple) -> ConnectionId {
        let tested = self.address.validations.iter().find(|validation| validation.tuple == *tuple);
        if let Some(validation) = tested.filter(|validation| self.remote_cids.holds(&validation.dcid)) {
            return validation.dcid;
        }
        if let Some(side) = self
            .address
            .side
            .as_deref()
            .copied()
            .filter(|side| side.tuple == *tuple && self.remote_cids.holds(&side.cid))
        {
            return side.cid;
        }
        if let Some(side) = self.address.side.take() {
            self.remote_cids.retire(side.sequence);
        }
        let Some((sequence, cid)) = self.remote_cids.take_unused() else { return self.remote_cids.active() };
        self.address.side = Some(Box::new(SideCid { tuple: *tuple, sequence, cid }));
        cid
    }

    /// Returns whether there may be a challenge or a response to send.
    pub(crate) fn owes_validation(&self) -> bool {
        !self.address.validations.is_empty() || !self.address.responses.is_empty()
    }

    /// Returns whether [`Self::cid_for`] is about to be called for other addresses and has to take a new
    /// connection ID.
    pub(crate) fn needs_cid_for_others(&self) -> bool {
        let has = |tuple: &FourTuple| {
            *tuple == self.tuple
                || self.address.side.as_deref().is_some_and(|side| side.tuple == *tuple)
                || self.address.validations.iter().any(|validation| validation.tuple == *tuple)
        };
        self.address.responses.iter().any(|response| !has(&response.tuple))
    }

    /// Switches to the connection ID that was set aside for `tuple`, to which the path moved, or to another
    /// unused one.
    pub(crate) fn switch_cid_for(&mut self, tuple: &FourTuple) {
        match self.address.side.take() {
            Some(side) if side.tuple == *tuple => {
                self.remote_cids.activate(side.sequence);
            }
            other => {
                self.address.side = other;
                self.remote_cids.next();
            }
        }
    }

    /// Returns the next time at which a validation has something to do.
    pub(crate) fn validation_timeout(&self) -> Option<Time> {
        // What the amplification limit holds back waits for a datagram, not for a time.
        let blocked = self.amplification_budget() < MIN_VALIDATION_ROOM;
        self.address
            .validations
            .iter()
            .map(|validation| match blocked && validation.tuple == self.tuple {
                true => validation.deadline,
                false => validation.timeout(),
            })
            .min()
    }
}
