//! Connection IDs that this end issued.

use anabranch_wire::{ConnectionId, Frame, NewConnectionId, PathId, ResetToken, TransportErrorCode, Writer};

use crate::error::TransportError;
use crate::token::{Token, Tokens};

/// Maximum number of connection IDs of one path that this end keeps active, even if the peer's limit allows
/// more.
pub(crate) const MAX_LOCAL_CIDS: usize = 8;

/// Progress of announcing an ID that this end issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announcement {
    /// NEW_CONNECTION_ID must be sent.
    Owed,
    /// NEW_CONNECTION_ID is in flight.
    Sent,
    /// NEW_CONNECTION_ID is acknowledged, or the peer has the ID from the handshake.
    Known,
}

#[derive(Clone, Copy, Debug)]
struct LocalCid {
    sequence: u64,
    cid: ConnectionId,
    /// Stateless reset token; `None` for the first ID of path 0, which is not announced in NEW_CONNECTION_ID.
    token: Option<ResetToken>,
    announcement: Announcement,
}

/// Connection IDs that this end issued for one path.
#[derive(Debug)]
pub(crate) struct LocalCids {
    path: PathId,
    /// IDs that the peer has not retired, in the order of their sequence numbers.
    active: Vec<LocalCid>,
    next_sequence: u64,
    retire_prior_to: u64,
    /// The peer's `active_connection_id_limit`.
    limit: u64,
    /// `true` if this end uses a zero-length connection ID, and so never issues any.
    zero_length: bool,
    /// Number of active IDs whose NEW_CONNECTION_ID must be sent.
    owed: u8,
}

impl LocalCids {
    /// Frees memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.active.shrink_to_fit();
    }

    /// Creates the IDs of a path. `first` was used in the handshake's packets and has sequence number 0.
    pub(crate) fn new(path: PathId, first: ConnectionId) -> Self {
        let mut cids = Self::unopened(path);
        cids.zero_length = first.is_empty();
        cids.insert(first, None, Announcement::Known);
        cids
    }

    /// Creates a set without IDs: the initial state of every path but the first.
    pub(crate) fn unopened(path: PathId) -> Self {
        // A peer that announces no limit accepts 2 (RFC 9000 §18.2).
        Self {
            path,
            active: Vec::new(),
            next_sequence: 0,
            retire_prior_to: 0,
            limit: 2,
            zero_length: false,
            owed: 0,
        }
    }

    /// Creates a set that stays empty, for paths in a single packet number space: they share one pool of IDs.
    pub(crate) fn none(path: PathId) -> Self {
        Self { limit: 0, ..Self::unopened(path) }
    }

    fn insert(&mut self, cid: ConnectionId, token: Option<ResetToken>, announcement: Announcement) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.active.push(LocalCid { sequence, cid, token, announcement });
        self.count_owed();
        sequence
    }

    /// Sets the peer's `active_connection_id_limit`.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns the number of IDs to issue now, so that the peer always has as many as its limit allows.
    pub(crate) fn wanted(&self) -> usize {
        if self.zero_length {
            return 0;
        }
        let target = usize::try_from(self.limit).unwrap_or(MAX_LOCAL_CIDS).min(MAX_LOCAL_CIDS);
        let good = self.active.iter().filter(|local| local.sequence >= self.retire_prior_to).count();
        // IDs that this end has asked the peer to retire are routed until the peer retires them, so the total
        // is limited as well.
        let room = (2 * MAX_LOCAL_CIDS).saturating_sub(self.active.len());
        target.saturating_sub(good).min(room)
    }

    /// Adds an ID that must be announced to the peer. Returns its sequence number.
    pub(crate) fn issue(&mut self, cid: ConnectionId, token: ResetToken) -> u64 {
        self.insert(cid, Some(token), Announcement::Owed)
    }

    /// Adds the ID of a `preferred_address` transport parameter, which announces it (sequence number 1, RFC
    /// 9000 §5.1.1).
    pub(crate) fn issue_preferred(&mut self, cid: ConnectionId, token: ResetToken) -> u64 {
        self.insert(cid, Some(token), Announcement::Known)
    }

    /// Returns the sequence number of `cid` if it is active.
    pub(crate) fn contains(&self, cid: &[u8]) -> Option<u64> {
        self.active.iter().find(|local| *local.cid == *cid).map(|local| local.sequence)
    }

    /// Returns the active IDs with their sequence numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, ConnectionId)> + '_ {
        self.active.iter().map(|local| (local.sequence, local.cid))
    }

    /// Returns the sequence number of the next ID, against which PATH_CIDS_BLOCKED is checked.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Asks the peer to retire all IDs below `sequence` (RFC 9000 §5.1.2). The next NEW_CONNECTION_ID frames
    /// carry the request, so the caller must then issue [`Self::wanted`] IDs.
    pub(crate) fn retire_prior_to(&mut self, sequence: u64) {
        self.retire_prior_to = self.retire_prior_to.max(sequence.min(self.next_sequence));
    }

    /// Asks the peer to retire all IDs issued so far.
    pub(crate) fn rotate(&mut self) {
        self.retire_prior_to(self.next_sequence);
    }

    /// Returns whether the peer has not yet retired all IDs that it was asked to retire.
    pub(crate) fn is_rotating(&self) -> bool {
        self.active.iter().any(|local| local.sequence < self.retire_prior_to)
    }

    /// Removes an ID that the peer retired in a packet sent to the ID `used`. Returns the ID, unless it was
    /// retired before.
    pub(crate) fn on_retire(
        &mut self,
        sequence: u64,
        used: &ConnectionId,
    ) -> Result<Option<ConnectionId>, TransportError> {
        // RFC 9000 §19.16
        let violation = |reason| Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        if self.zero_length {
            return violation("RETIRE_CONNECTION_ID for a zero-length connection ID");
        }
        if sequence >= self.next_sequence {
            return violation("RETIRE_CONNECTION_ID for an ID that was never issued");
        }
        let Some(at) = self.active.iter().position(|local| local.sequence == sequence) else {
            return Ok(None);
        };
        if self.active[at].cid == *used {
            return violation("RETIRE_CONNECTION_ID for the ID of its own packet");
        }
        let cid = self.active.remove(at).cid;
        self.count_owed();
        Ok(Some(cid))
    }

    /// Returns whether a NEW_CONNECTION_ID must be sent.
    pub(crate) fn has_pending(&self) -> bool {
        self.owed > 0
    }

    /// Counts the pending frames. The count is cached because each packet needs it and it rarely changes.
    fn count_owed(&mut self) {
        // Fewer than 2 * MAX_LOCAL_CIDS + 2 IDs are active, so the count fits into 8 bits.
        self.owed = self.active.iter().filter(|local| local.announcement == Announcement::Owed).count() as u8;
    }

    /// Writes as many pending NEW_CONNECTION_ID frames as fit; PATH_NEW_CONNECTION_ID if `multipath`.
    pub(crate) fn write(&mut self, w: &mut Writer<'_>, tokens: &mut Tokens, multipath: bool) {
        if !self.has_pending() {
            return;
        }
        for local in self.active.iter_mut().filter(|local| local.announcement == Announcement::Owed) {
            let LocalCid { sequence, cid, token: Some(token), .. } = *local else { continue };
            let frame = Frame::NewConnectionId(NewConnectionId {
                path: multipath.then_some(self.path),
                sequence,
                retire_prior_to: self.retire_prior_to.min(sequence),
                cid,
                token,
            });
            if w.frame(&frame).is_err() {
                break;
            }
            local.announcement = Announcement::Sent;
            tokens.push(Token::NewConnectionId { path: self.path, sequence });
        }
        self.count_owed();
    }

    /// Marks the lost NEW_CONNECTION_ID of `sequence` to be sent again, unless another copy was acknowledged
    /// or the peer has retired the ID.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.announce(sequence, |now| if now == Announcement::Sent { Announcement::Owed } else { now });
    }

    /// Marks the NEW_CONNECTION_ID of `sequence` as acknowledged.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        self.announce(sequence, |_| Announcement::Known);
    }

    fn announce(&mut self, sequence: u64, change: impl FnOnce(Announcement) -> Announcement) {
        if let Some(local) = self.active.iter_mut().find(|local| local.sequence == sequence) {
            local.announcement = change(local.announcement);
            self.count_owed();
        }
    }
}
