//! Data and frames that are owed, and the packets that may carry them.

use anabranch_wire::{PacketKind, PathId, SpaceId, Time};

use super::draft::Fill;
use crate::connection::connection::Connection;
use crate::path::{Path, Turn};
use crate::schedule::Pick;

/// Packets in a row without anything to acknowledge after which a PING is added, so that the ranges that this
/// end has acknowledged can be forgotten (RFC 9000 §13.2.4).
const ACK_ONLY_LIMIT: u32 = 32;

/// Packets under way that ask for an acknowledgment beyond which no PING is added: a peer that answers none
/// of them answers no further one.
pub(crate) const MAX_NUDGES: u64 = 64;

impl Connection {
    /// Notes that nothing is left to send although the window would allow it (RFC 9002 §7.8).
    pub(in crate::connection) fn note_app_limited(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        window_open: bool,
    ) {
        if window_open
            && !self.is_waiting(id, turn)
            && let Some(path) = self.paths.list.get_mut(id)
        {
            path.recovery.app_limited(now);
        }
    }

    /// Returns whether there is anything that waits for permission to be sent.
    pub(in crate::connection) fn is_waiting(&self, id: PathId, turn: &Turn) -> bool {
        self.levels.iter().any(|level| level.crypto.has_pending())
            || self.data_kind().is_some_and(|kind| {
                self.paths.list.get(id).is_some_and(|path| self.has_data(path, kind, turn))
            })
    }

    pub(in crate::connection) fn kind_for(&self, space: SpaceId) -> Option<PacketKind> {
        match space {
            SpaceId::Initial => self.keys.initial.is_some().then_some(PacketKind::Initial),
            SpaceId::Handshake => self.keys.handshake.is_some().then_some(PacketKind::Handshake),
            SpaceId::Data => self.data_kind(),
        }
    }

    /// Returns the frames that a packet of `space` on the path may carry; `None` if there is no reason to
    /// send one.
    pub(in crate::connection) fn fill_for(
        &self,
        now: Time,
        id: PathId,
        space: SpaceId,
        kind: PacketKind,
        window_open: bool,
        turn: &Turn,
    ) -> Option<Fill> {
        let path = self.paths.list.get(id)?;
        // Another path stands in for one that fails: it is asked with challenges instead of probes, and
        // acknowledgments leave there.
        let replaced = space == SpaceId::Data && path.is_failing && self.paths.stand_in(path).is_some();
        let probe = path.recovery.probes(space) > 0 && !replaced;
        let (ack_due, ack) = match Self::level_index(space) {
            Some(index) => {
                let level = &self.levels[index];
                (level.owes_ack(now) && level.acks.allows(now), level.received.ack.can_ack())
            }
            None if kind == PacketKind::ZeroRtt => (false, false),
            None => self.paths.acks_on(now, path),
        };
        // Early data of either end must not keep the handshake waiting: it is not acknowledged, nor probed
        // for, before the handshake goes on (RFC 9002 §6.2.1). One flight at a time, so that the probe
        // timeout governs.
        let stuck = space != SpaceId::Data && !path.recovery.unacked(space).any(|sent| sent.ack_eliciting);
        let allowed = window_open || probe || stuck;
        // Probes carry again what their path has waited for longest, unless another path has room for it.
        let lone = probe && path.is_usable();
        let carries = |pick: &Pick| pick.path == Some(id) || lone && pick.path.is_none();
        let (control, streams) = (carries(&turn.control), turn.kinds(id, lone));
        let data = allowed
            && match Self::level_index(space) {
                Some(index) => self.levels[index].crypto.has_pending(),
                None => {
                    path.ping
                        || control && self.has_control(path, kind)
                        || streams.any() && self.has_streams()
                        || self.paths.has_copies(id)
                }
            };
        if !(ack_due || data || probe) {
            return None;
        }
        let nudge = space == SpaceId::Data
            && allowed
            && path.ack_only_run >= ACK_ONLY_LIMIT
            && path.recovery.asking(space) < MAX_NUDGES;
        Some(Fill { ack, data: allowed, control, streams, probe: probe || nudge })
    }

    /// Holds a due acknowledgment of the handshake until its turn, and sets the connection's timer for it.
    pub(in crate::connection) fn hold_ack(&mut self, now: Time, space: SpaceId) {
        let Some(index) = Self::level_index(space) else { return };
        let level = &mut self.levels[index];
        if level.owes_ack(now) && !level.acks.allows(now) {
            level.acks.hold();
        }
    }

    /// Returns whether there are frames for a 0-RTT or 1-RTT packet besides acknowledgments.
    pub(in crate::connection) fn has_data(&self, path: &Path, kind: PacketKind, turn: &Turn) -> bool {
        path.ping || turn.shared && self.has_shared(path, kind) || self.paths.has_copies(path.id)
    }

    /// Returns whether there are frames that `path` may carry and that are not about it alone.
    pub(in crate::connection) fn has_shared(&self, path: &Path, kind: PacketKind) -> bool {
        self.has_streams() || self.has_control(path, kind)
    }

    pub(in crate::connection) fn has_streams(&self) -> bool {
        self.streams.has_pending_data() || self.datagrams.has_pending()
    }

    /// Returns whether there are control frames that `path` may carry.
    pub(in crate::connection) fn has_control(&self, path: &Path, kind: PacketKind) -> bool {
        self.streams.has_pending_control()
            || kind == PacketKind::OneRtt
                && (self.pending.handshake_done
                    || self.pending.new_tokens > 0
                    || self.pending.ack_frequency.is_some()
                    || self.handshake.data_crypto.has_pending()
                    || match self.paths.multipath {
                        Some(_) => self.paths.has_multipath_pending(),
                        None => path.local_cids.has_pending() || path.remote_cids.has_pending(),
                    })
    }

    /// Returns whether there are control frames that the scheduler decides about.
    pub(in crate::connection) fn has_shared_control(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_control(self.paths.list.main(), kind))
    }

    /// Returns whether anything waits that the scheduler decides about.
    pub(in crate::connection) fn has_shared_data(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_shared(self.paths.list.main(), kind))
    }
}
