//! One path: addresses, recovery, received packets and connection IDs.

use anabranch_recovery::{Recovery, State};
use anabranch_wire::{ConnectionId, PathId, SpaceId, Time};

use super::address::{AddressState, SideCid};
use super::cids::{LocalCids, RemoteCids};
use super::closure::Closure;
use super::counters::{PathCounters, PathNumbers};
use super::state::IdleReason;
use super::status::Statuses;
use super::validation::{MAX_PROBE_INTERVAL, Purpose, Validation};
use crate::config::AckConfig;
use crate::datagram_io::FourTuple;
use crate::space::Received;
use crate::token::Tokens;

/// Anti-amplification factor: until an address is validated, an endpoint sends at most this many times the
/// bytes received from it (RFC 9000 §8.1).
pub(crate) const AMPLIFICATION_FACTOR: u64 = 3;

/// Phase of a path's life (RFC 10069 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer has not responded on the path yet.
    Opening,
    /// In use.
    Open,
    /// Abandoned. Packets that are still in flight are processed until `until`.
    Abandoned {
        /// Time at which the path's state is removed; `None` until the peer's PATH_ABANDON arrives.
        until: Option<Time>,
    },
}

/// State that the observer was last informed of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traced {
    /// State of the congestion controller.
    pub(crate) congestion: Option<State>,
    /// Last traced reason why the path carries no data: `None` before the first one, `Some(None)` if the path
    /// may carry data.
    pub(crate) idle: Option<Option<IdleReason>>,
}

/// One path of a connection, identified by its ID. A new four-tuple under the same ID is a migration.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) tuple: FourTuple,
    pub(crate) phase: Phase,
    /// Time of the last change of the path's local connection IDs, and the number of 1-RTT packets received
    /// by then.
    pub(crate) cids_since: Option<(Time, u64)>,
    /// Time and reason of the path's abandonment.
    pub(crate) closure: Option<Closure>,
    pub(crate) status: Statuses,
    /// `true` if an acknowledgment is overdue, so that other paths replace this one.
    pub(crate) is_failing: bool,
    /// `true` if the socket of the path's local address is full.
    pub(crate) is_socket_blocked: bool,
    pub(crate) address: AddressState,
    pub(crate) recovery: Recovery<Tokens>,
    /// Received 0-RTT and 1-RTT packets.
    pub(crate) received: Received,
    pub(crate) local_cids: LocalCids,
    pub(crate) remote_cids: RemoteCids,
    pub(crate) traced: Traced,
    pub(crate) numbers: PathNumbers,
    /// Time before which the pacer permits no packet; `None` if nothing waits for the pacer.
    pub(crate) paced_until: Option<Time>,
    /// Number of consecutive packets sent that are not ack-eliciting.
    pub(crate) ack_only_run: u32,
    /// `true` if a PING must be sent.
    pub(crate) ping: bool,
    /// Local connection ID to which the peer sent last.
    pub(crate) used_local_cid: ConnectionId,
    pub(crate) counters: PathCounters,
}

/// Minimum space in a datagram for starting a packet, in bytes.
pub(crate) const MIN_PACKET_ROOM: usize = 128;

/// Maximum size of a packet with only a PATH_CHALLENGE: header, frame, tag. RFC 9000 §8.2.1 requires the
/// datagram to be expanded to 1200 bytes unless the amplification limit forbids it. Three times the smallest
/// packet exceeds this size, so a peer that sends only a PING from a new address can be challenged there.
pub(crate) const MIN_VALIDATION_ROOM: u64 = 60;

/// Size of a padded datagram with a PATH_CHALLENGE, in bytes (RFC 9000 §8.2.1).
const FULL_CHALLENGE: u64 = 1200;

/// Size of a datagram with an acknowledgment and a PATH_CHALLENGE, in bytes, if the amplification limit does
/// not allow 1200 bytes.
const SHORT_CHALLENGE: u64 = 120;

/// Bytes of the amplification limit that are reserved for challenges to the path's own address. Without this
/// reserve, data could use up the limit. A peer that only receives, and whose responses were lost, would then
/// never be challenged again.
const CHALLENGE_RESERVE: u64 = 4 * SHORT_CHALLENGE;

/// Maximum number of validations in progress on one path.
pub(crate) const MAX_VALIDATIONS: usize = 4;

/// Connection IDs of a new path.
#[derive(Debug)]
pub(crate) struct PathCids {
    /// IDs that this end has issued.
    pub(crate) local: LocalCids,
    /// IDs that the peer has issued.
    pub(crate) remote: RemoteCids,
    /// ID in `local` to which the peer sends.
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
            traced: Traced::default(),
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

    /// Returns whether the path is abandoned.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.phase, Phase::Abandoned { .. })
    }

    /// Returns whether the path's state can be removed: it is abandoned and its retention has ended.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Abandoned { until: Some(until) } if now >= until)
    }

    /// Returns whether data sent on the path can be expected to arrive.
    pub(crate) fn is_working(&self) -> bool {
        self.is_usable() && !self.is_failing && !self.is_amplification_blocked()
    }

    /// Returns whether packets with data may be sent on the path.
    pub(crate) fn is_usable(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns whether both ends consider the path available, not a backup.
    pub(crate) fn is_available(&self) -> bool {
        self.status.local.available && self.status.peer.available
    }

    /// Returns the bytes that may still be sent before the peer's address is validated; `u64::MAX` if it is
    /// validated.
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

    /// Returns the byte limit of the next datagram with a PATH_CHALLENGE to the path's own address: the
    /// amplification limit if it allows 1200 bytes, otherwise a part of it. The rest allows another challenge
    /// if no response arrives (RFC 9000 §8.2.1).
    pub(crate) fn challenge_budget(&self) -> u64 {
        match self.amplification_budget() {
            budget if budget >= FULL_CHALLENGE => budget,
            budget => budget.min(SHORT_CHALLENGE.max(budget / 4)),
        }
    }

    /// Returns whether ordinary packets must wait until more bytes are received.
    pub(crate) fn is_amplification_blocked(&self) -> bool {
        self.data_budget() < MIN_PACKET_ROOM as u64
    }

    /// Returns the time at which an acknowledgment must be sent; `None` while the amplification limit blocks
    /// it.
    pub(crate) fn ack_timeout(&self) -> Option<Time> {
        self.received.ack.ack_deadline().filter(|_| !self.is_amplification_blocked())
    }

    /// Counts a datagram that arrived on the path's addresses.
    pub(crate) fn on_datagram_received(&mut self, len: usize) {
        self.counters.bytes_received += len as u64;
        self.counters.datagrams_received += 1;
        if !self.address.validated {
            self.address.received += len as u64;
            self.recovery.amplification_blocked(self.is_amplification_blocked());
        }
    }

    /// Removes from the counters a datagram that turned out to belong to another path.
    pub(crate) fn uncount_datagram(&mut self, len: usize) {
        self.counters.bytes_received = self.counters.bytes_received.saturating_sub(len as u64);
        self.counters.datagrams_received = self.counters.datagrams_received.saturating_sub(1);
        self.address.received = self.address.received.saturating_sub(len as u64);
        self.recovery.amplification_blocked(self.is_amplification_blocked());
    }

    /// Counts a datagram that was sent on the path's addresses.
    pub(crate) fn on_datagram_sent(&mut self, len: usize) {
        self.counters.bytes_sent += len as u64;
        self.counters.datagrams_sent += 1;
        if !self.address.validated {
            self.address.sent += len as u64;
            self.recovery.amplification_blocked(self.is_amplification_blocked());
        }
    }

    /// Marks the peer's address as validated.
    pub(crate) fn set_validated(&mut self) {
        self.address.validated = true;
        self.recovery.amplification_blocked(false);
    }

    /// Starts a validation, which replaces the one of the same four-tuple, or the oldest one if
    /// [`MAX_VALIDATIONS`] are pending. Retires the connection ID that the replaced one had reserved.
    pub(crate) fn begin_validation(&mut self, validation: Validation) {
        let same = self.address.validations.iter().position(|other| other.tuple == validation.tuple);
        let at = same.or((self.address.validations.len() == MAX_VALIDATIONS).then_some(0));
        let displaced = at.map(|at| self.address.validations.remove(at));
        self.address.validations.push(validation);
        if let Some(sequence) = displaced.and_then(|displaced| displaced.taken()) {
            self.remote_cids.retire(sequence);
        }
    }

    /// Returns whether the path's own addresses are being validated.
    pub(crate) fn is_probed(&self) -> bool {
        let probes = |one: &Validation| {
            one.tuple == self.tuple && matches!(one.purpose, Purpose::Confirm | Purpose::Life)
        };
        self.address.validations.iter().any(probes)
    }

    /// Begins to validate the path's own addresses, because it is failing. A response shows that it works again.
    pub(crate) fn probe(&mut self, now: Time) {
        let pto = self.recovery.pto(SpaceId::Data);
        let dcid = self.remote_cids.active();
        self.begin_validation(Validation::of_life(now, self.tuple, dcid, pto, MAX_PROBE_INTERVAL));
    }

    /// Cancels the validations for which `is_over` returns `true`, and retires the connection IDs that they
    /// had reserved.
    pub(crate) fn cancel_validations(&mut self, is_over: impl Fn(&Validation) -> bool) {
        while let Some(at) = self.address.validations.iter().position(&is_over) {
            let over = self.address.validations.remove(at);
            if let Some(sequence) = over.taken() {
                self.remote_cids.retire(sequence);
            }
        }
    }

    /// Reserves a connection ID of the peer for packets to `tuple`: the ID of the responses that went there,
    /// or an unused ID. If the peer has issued no other, the result is the ID in use.
    pub(crate) fn reserve_cid_for(&mut self, tuple: &FourTuple) -> (u64, ConnectionId) {
        if let Some(side) = self.address.side.take_if(|side| side.tuple == *tuple)
            && self.remote_cids.holds(&side.cid)
        {
            return (side.sequence, side.cid);
        }
        let unused = self.remote_cids.take_unused();
        unused.unwrap_or_else(|| (self.remote_cids.active_seq(), self.remote_cids.active()))
    }

    /// Removes the previous addresses and retires their connection ID, because the path does not return to
    /// them.
    pub(crate) fn forget_previous(&mut self) {
        if let Some(previous) = self.address.previous.take() {
            self.remote_cids.retire(previous.dcid_sequence);
        }
    }

    /// Returns the peer's connection ID for packets to `tuple`. It differs from the ID in use unless the peer
    /// has issued no other.
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

    /// Returns whether a PATH_CHALLENGE or PATH_RESPONSE may have to be sent.
    pub(crate) fn owes_validation(&self) -> bool {
        !self.address.validations.is_empty() || !self.address.responses.is_empty()
    }

    /// Returns whether a pending response needs a new connection ID, because it is due on addresses for which
    /// [`Self::cid_for`] has none.
    pub(crate) fn needs_cid_for_others(&self) -> bool {
        let has = |tuple: &FourTuple| {
            *tuple == self.tuple
                || self.address.side.as_deref().is_some_and(|side| side.tuple == *tuple)
                || self.address.validations.iter().any(|validation| validation.tuple == *tuple)
        };
        self.address.responses.iter().any(|response| !has(&response.tuple))
    }

    /// Activates the connection ID for `tuple`, to which the path migrates: the reserved one, or else an
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

    /// Returns the next time at which a challenge is due or a validation fails.
    pub(crate) fn validation_timeout(&self) -> Option<Time> {
        // A challenge blocked by the amplification limit waits for a datagram, not for a time.
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
