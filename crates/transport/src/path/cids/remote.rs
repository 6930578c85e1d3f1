//! Connection IDs that the peer issued.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_wire::{ConnectionId, Frame, NewConnectionId, PathId, ResetToken, TransportErrorCode, Writer};

use crate::error::TransportError;
use crate::event::EndpointEvent;
use crate::ranges::RangeSet;
use crate::token::{Token, Tokens};

/// Maximum number of unacknowledged RETIRE_CONNECTION_ID frames, in multiples of our
/// `active_connection_id_limit`. The connection is closed if a peer makes us retire more without
/// acknowledging any (RFC 9000 §5.1.2).
pub(crate) const MAX_RETIRING_FACTOR: usize = 2;

/// Maximum number of separate runs of sequence numbers among the peer's IDs. An honest peer causes gaps only
/// as far as its NEW_CONNECTION_ID frames are reordered.
pub(crate) const MAX_SEQUENCE_RUNS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteCid {
    sequence: u64,
    cid: ConnectionId,
    /// Stateless reset token; `None` for the first ID of path 0, until a server's transport parameters
    /// provide one.
    token: Option<ResetToken>,
    /// `true` once packets were sent to the ID. Only then may the endpoint look for its reset token (RFC 9000
    /// §10.3.1).
    used: bool,
}

/// A RETIRE_CONNECTION_ID that the peer has not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retiring {
    sequence: u64,
    sent: bool,
}

/// Connection IDs that the peer issued for one path.
#[derive(Debug)]
pub(crate) struct RemoteCids {
    path: PathId,
    /// IDs that the peer issued and this end has not retired, in the order of their sequence numbers.
    pub(super) cids: Vec<RemoteCid>,
    /// Sequence number of the ID that packets are sent to. `cids` contains this ID unless the path is
    /// unopened.
    active: u64,
    /// Our own `active_connection_id_limit`.
    limit: usize,
    retire_prior_to: u64,
    /// Sequence numbers from `retire_prior_to` on that were received. They keep a repeated frame from adding
    /// a retired ID again.
    pub(super) seen: RangeSet,
    /// Sequence numbers below `retire_prior_to` that were received, and so retired. A late copy of their frames retires nothing again.
    pub(super) done: RangeSet,
    pub(super) retiring: VecDeque<Retiring>,
    events: VecDeque<EndpointEvent>,
}

impl RemoteCids {
    /// Frees memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.cids.shrink_to_fit();
        self.retiring.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Creates the IDs of a path. `first` is the destination of the handshake's packets, and `limit` is our
    /// own `active_connection_id_limit`.
    pub(crate) fn new(path: PathId, first: ConnectionId, limit: u64) -> Self {
        let mut cids = Self::unopened(path, limit);
        cids.seen.insert(0..1);
        cids.cids.push(RemoteCid { sequence: 0, cid: first, token: None, used: true });
        cids
    }

    /// Creates a set without IDs: the initial state of every path but the first. [`Self::next`] activates the
    /// first ID.
    pub(crate) fn unopened(path: PathId, limit: u64) -> Self {
        Self {
            path,
            cids: Vec::new(),
            active: 0,
            // RFC 9000 §18.2: at least 2.
            limit: usize::try_from(limit).unwrap_or(usize::MAX).max(2),
            retire_prior_to: 0,
            seen: RangeSet::default(),
            done: RangeSet::default(),
            retiring: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Creates a pool of IDs for paths that share a packet number space. Its sequence numbers continue after
    /// those of path 0. Path 0 keeps its own IDs.
    pub(crate) fn pool(&self) -> Self {
        let (limit, retire_prior_to) = (self.limit, self.retire_prior_to);
        let (seen, done) = (self.seen.clone(), self.done.clone());
        Self { limit, retire_prior_to, seen, done, ..Self::unopened(self.path, 0) }
    }

    /// Creates an empty set for a path that takes its IDs from this pool.
    pub(crate) fn taker(&self, path: PathId) -> Self {
        Self { limit: self.limit, retire_prior_to: self.retire_prior_to, ..Self::unopened(path, 0) }
    }

    /// Moves an unused ID from this pool to the path's set `to`, if the pool has one.
    pub(crate) fn lend(&mut self, to: &mut Self) {
        if let Some(at) = self.cids.iter().position(|remote| !remote.used) {
            to.insert(self.cids.remove(at));
        }
    }

    /// Takes over the pending RETIRE_CONNECTION_ID frames of a path, up to the limit of unacknowledged ones.
    pub(crate) fn collect_retiring(&mut self, from: &mut Self) {
        while self.may_retire()
            && let Some(retiring) = from.retiring.pop_front()
        {
            self.retiring.push_back(Retiring { sent: false, ..retiring });
        }
    }

    /// Retires all IDs of an abandoned path. IDs beyond the limit of unacknowledged retirements are dropped
    /// without a frame.
    pub(crate) fn reclaim(&mut self, from: &mut Self) {
        for remote in core::mem::take(&mut from.cids) {
            from.forget_token(&remote);
            if from.may_retire() && !remote.cid.is_empty() {
                from.retiring.push_back(Retiring { sequence: remote.sequence, sent: false });
            }
        }
        self.collect_retiring(from);
    }

    /// Returns the number of IDs that are not retired.
    pub(crate) fn len(&self) -> usize {
        self.cids.len()
    }

    /// Returns the number of IDs with a sequence number below `sequence`.
    pub(crate) fn older_than(&self, sequence: u64) -> usize {
        self.cids.iter().filter(|remote| remote.sequence < sequence).count()
    }

    /// Checks that a NEW_CONNECTION_ID does not contradict an ID of this path.
    pub(crate) fn check_repeated(&self, frame: &NewConnectionId) -> Result<(), TransportError> {
        let &NewConnectionId { sequence, cid, token, .. } = frame;
        let other = |remote: &RemoteCid| {
            (remote.sequence == sequence || remote.cid == cid)
                && (remote.sequence != sequence || remote.cid != cid || remote.token != Some(token))
        };
        if self.cids.iter().any(other) {
            return violation("NEW_CONNECTION_ID changes an ID or its sequence number");
        }
        Ok(())
    }

    /// Returns the ID that packets are sent to. It is empty on an unopened path, or if the peer uses
    /// zero-length IDs.
    pub(crate) fn active(&self) -> ConnectionId {
        self.get(self.active).unwrap_or(ConnectionId::EMPTY)
    }

    /// Returns the sequence number of [`Self::active`].
    pub(crate) fn active_seq(&self) -> u64 {
        self.active
    }

    /// Returns whether an ID exists that packets may be sent to now.
    pub(crate) fn is_open(&self) -> bool {
        self.cids.iter().any(|remote| remote.sequence == self.active && remote.used)
    }

    /// Returns whether an unused ID exists.
    pub(crate) fn has_unused(&self) -> bool {
        self.cids.iter().any(|remote| !remote.used)
    }

    #[cfg(test)]
    pub(crate) fn unused(&self) -> usize {
        self.cids.iter().filter(|remote| !remote.used).count()
    }

    /// Returns the ID with sequence number `sequence`; `None` once it is retired and must no longer be used.
    pub(crate) fn get(&self, sequence: u64) -> Option<ConnectionId> {
        self.cids.iter().find(|remote| remote.sequence == sequence).map(|remote| remote.cid)
    }

    /// Returns whether `cid` may be used: it is known and not retired.
    pub(crate) fn holds(&self, cid: &ConnectionId) -> bool {
        self.cids.iter().any(|remote| remote.cid == *cid)
    }

    /// Returns whether `token` is the reset token of an ID that packets were sent to (RFC 9000 §10.3.1). Each
    /// comparison takes constant time.
    pub(crate) fn may_reset(&self, token: &ResetToken) -> bool {
        self.cids.iter().any(|remote| remote.used && remote.token == Some(*token))
    }

    /// Returns the sequence number of the peer's next ID, if the peer skips none, for PATH_CIDS_BLOCKED.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.seen.max().map_or(self.retire_prior_to, |largest| largest + 1)
    }

    /// Replaces the first ID by the one that the peer chose in its first packet (RFC 9000 §7.2) or in a
    /// Retry.
    pub(crate) fn set_first(&mut self, cid: ConnectionId) {
        if let Some(first) = self.cids.iter_mut().find(|remote| remote.sequence == 0) {
            first.cid = cid;
        }
    }

    /// Sets the reset token of the first ID, from the `stateless_reset_token` transport parameter.
    pub(crate) fn set_first_token(&mut self, token: ResetToken) {
        if let Some(first) =
            self.cids.iter_mut().find(|remote| remote.sequence == 0 && remote.token.is_none())
        {
            first.token = Some(token);
            self.events.push_back(EndpointEvent::ResetTokenAdded(token));
        }
    }

    /// Adds the ID of a `preferred_address` transport parameter (sequence number 1, RFC 9000 §5.1.1).
    pub(crate) fn insert_preferred(&mut self, cid: ConnectionId, token: ResetToken) {
        if !self.seen.contains(1) {
            self.insert(RemoteCid { sequence: 1, cid, token: Some(token), used: false });
        }
    }

    fn insert(&mut self, remote: RemoteCid) {
        self.seen.insert(remote.sequence..remote.sequence + 1);
        let at = self.cids.partition_point(|other| other.sequence < remote.sequence);
        self.cids.insert(at, remote);
    }

    /// Handles NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID (RFC 9000 §19.15).
    pub(crate) fn on_new(&mut self, frame: &NewConnectionId) -> Result<(), TransportError> {
        let &NewConnectionId { sequence, retire_prior_to, cid, token, .. } = frame;
        if self.cids.iter().any(|remote| remote.cid.is_empty()) {
            return violation("NEW_CONNECTION_ID from a peer without connection IDs");
        }
        if let Some(remote) = self.cids.iter().find(|remote| remote.sequence == sequence || remote.cid == cid)
        {
            if remote.sequence != sequence || remote.cid != cid || remote.token != Some(token) {
                return violation("NEW_CONNECTION_ID changes an ID or its sequence number");
            }
        } else if sequence < self.retire_prior_to {
            // The ID arrived after the peer had asked for its retirement (RFC 9000 §19.15: unless this end has retired it).
            if !self.done.contains(sequence) {
                self.push_retiring(sequence)?;
                self.note_done(sequence..sequence + 1);
            }
        } else if !self.seen.contains(sequence) {
            self.insert(RemoteCid { sequence, cid, token: Some(token), used: false });
        }
        self.on_retire_prior_to(retire_prior_to)?;
        if self.cids.len() > self.limit || self.seen.len() > MAX_SEQUENCE_RUNS {
            return limit_error("more connection IDs than active_connection_id_limit");
        }
        Ok(())
    }

    /// Retires all IDs below `sequence`. If the active one is among them, another one becomes active.
    pub(crate) fn on_retire_prior_to(&mut self, sequence: u64) -> Result<(), TransportError> {
        if sequence <= self.retire_prior_to {
            return Ok(());
        }
        self.retire_prior_to = sequence;
        let seen: Vec<_> = self.seen.within(0..sequence).collect();
        seen.into_iter().for_each(|range| self.note_done(range));
        self.seen.remove(0..sequence);
        let must_move = self.is_open() && self.active < sequence;
        if must_move && !self.activate_unused(sequence) && !self.activate_any(sequence) {
            return violation("Retire Prior To leaves no connection ID");
        }
        while let Some(&oldest) = self.cids.first().filter(|oldest| oldest.sequence < sequence) {
            self.push_retiring(oldest.sequence)?;
            self.cids.remove(0);
            self.forget_token(&oldest);
        }
        Ok(())
    }

    /// Notes sequence numbers as retired. Beyond [`MAX_SEQUENCE_RUNS`] runs of them, the oldest ones are forgotten.
    fn note_done(&mut self, range: Range<u64>) {
        self.done.insert(range);
        if self.done.len() > MAX_SEQUENCE_RUNS {
            self.done.pop_min();
        }
    }

    /// Activates the oldest unused ID with a sequence number of at least `at_least`.
    fn activate_unused(&mut self, at_least: u64) -> bool {
        let unused = self.cids.iter().find(|remote| !remote.used && remote.sequence >= at_least);
        let Some(sequence) = unused.map(|remote| remote.sequence) else { return false };
        self.use_cid(sequence);
        self.active = sequence;
        true
    }

    /// Activates the oldest ID with a sequence number of at least `at_least`, even if another address was
    /// probed with it.
    fn activate_any(&mut self, at_least: u64) -> bool {
        let any = self.cids.iter().find(|remote| remote.sequence >= at_least).map(|remote| remote.sequence);
        any.is_some_and(|sequence| self.activate(sequence))
    }

    fn use_cid(&mut self, sequence: u64) {
        let Some(remote) = self.cids.iter_mut().find(|remote| remote.sequence == sequence) else { return };
        if !core::mem::replace(&mut remote.used, true) {
            self.events.extend(remote.token.map(EndpointEvent::ResetTokenAdded));
        }
    }

    fn forget_token(&mut self, remote: &RemoteCid) {
        if remote.used {
            self.events.extend(remote.token.map(EndpointEvent::ResetTokenRemoved));
        }
    }

    fn may_retire(&self) -> bool {
        self.retiring.len() < MAX_RETIRING_FACTOR.saturating_mul(self.limit)
    }

    fn push_retiring(&mut self, sequence: u64) -> Result<(), TransportError> {
        if self.retiring.iter().any(|retiring| retiring.sequence == sequence) {
            return Ok(());
        }
        if !self.may_retire() {
            return limit_error("too many connection IDs to retire without an acknowledgment");
        }
        self.retiring.push_back(Retiring { sequence, sent: false });
        Ok(())
    }

    /// Activates an unused ID and retires the active one; on an unopened path, activates the first ID.
    /// Returns `false` and changes nothing if no unused ID exists, or if too many retirements are
    /// unacknowledged.
    pub(crate) fn next(&mut self) -> bool {
        let old = self.is_open().then_some(self.active);
        if !self.may_retire() || !self.activate_unused(0) {
            return false;
        }
        if let Some(old) = old {
            self.retire(old);
        }
        true
    }

    /// Reserves an unused ID for probing another address (RFC 9000 §9.5). If the probe fails, call
    /// [`Self::retire`]; if the path migrates there, call [`Self::activate`].
    pub(crate) fn take_unused(&mut self) -> Option<(u64, ConnectionId)> {
        let unused = self.cids.iter().find(|remote| !remote.used)?;
        let taken = (unused.sequence, unused.cid);
        self.use_cid(taken.0);
        Some(taken)
    }

    /// Reserves the unused ID with this sequence number, like [`Self::take_unused`].
    pub(crate) fn take(&mut self, sequence: u64) -> Option<ConnectionId> {
        let unused = self.cids.iter().find(|remote| remote.sequence == sequence && !remote.used)?.cid;
        self.use_cid(sequence);
        Some(unused)
    }

    /// Activates an ID that [`Self::take_unused`] returned. The previously active one remains until it is
    /// retired. Returns `false` if the ID has been retired meanwhile.
    pub(crate) fn activate(&mut self, sequence: u64) -> bool {
        let exists = self.get(sequence).is_some();
        if exists {
            self.use_cid(sequence);
            self.active = sequence;
        }
        exists
    }

    /// Retires an ID that is not active. The ID is kept if too many retirements are unacknowledged.
    pub(crate) fn retire(&mut self, sequence: u64) {
        let Some(at) = self.cids.iter().position(|remote| remote.sequence == sequence) else { return };
        if sequence == self.active || self.push_retiring(sequence).is_err() {
            return;
        }
        let retired = self.cids.remove(at);
        self.forget_token(&retired);
    }

    /// Removes the IDs and reset tokens of an abandoned path. No RETIRE_CONNECTION_ID frames are needed,
    /// because PATH_ABANDON retires all IDs (RFC 10069 §3.4).
    pub(crate) fn abandon(&mut self) {
        for remote in core::mem::take(&mut self.cids) {
            self.forget_token(&remote);
        }
        self.retiring.clear();
    }

    /// Returns the next change of the reset tokens that the endpoint must look for.
    pub(crate) fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Returns whether a RETIRE_CONNECTION_ID must be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.retiring.iter().any(|retiring| !retiring.sent)
    }

    /// Writes as many pending RETIRE_CONNECTION_ID frames as fit; PATH_RETIRE_CONNECTION_ID if `multipath`.
    pub(crate) fn write(&mut self, w: &mut Writer<'_>, tokens: &mut Tokens, multipath: bool) {
        for retiring in self.retiring.iter_mut().filter(|retiring| !retiring.sent) {
            let sequence = retiring.sequence;
            let frame = Frame::RetireConnectionId { path: multipath.then_some(self.path), sequence };
            if w.frame(&frame).is_err() {
                return;
            }
            retiring.sent = true;
            tokens.push(Token::RetireConnectionId { path: self.path, sequence });
        }
    }

    /// Marks the lost RETIRE_CONNECTION_ID of `sequence` to be sent again.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        if let Some(retiring) = self.retiring.iter_mut().find(|retiring| retiring.sequence == sequence) {
            retiring.sent = false;
        }
    }

    /// Removes the RETIRE_CONNECTION_ID of `sequence`, which was acknowledged.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        self.retiring.retain(|retiring| retiring.sequence != sequence);
    }
}

fn violation(reason: &'static str) -> Result<(), TransportError> {
    Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason))
}

fn limit_error(reason: &'static str) -> Result<(), TransportError> {
    Err(TransportError::new(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR, reason))
}
