//! Pending data and frames, and the packets that may carry them.

use anabranch_wire::{PacketKind, PathId, SpaceId, Time};

use super::draft::Fill;
use crate::connection::connection::Connection;
use crate::path::{Path, Turn};
use crate::schedule::Pick;

/// Maximum number of consecutive ACK-only packets before a PING is added to one. The peer acknowledges that
/// packet, and the ranges that the packet reports then need not be reported again (RFC 9000 §13.2.4).
const ACK_ONLY_LIMIT: u32 = 32;

/// Number of ack-eliciting packets in flight at which no more PINGs are added to ACK-only packets: a peer
/// that acknowledges none of these packets would not acknowledge a PING either.
pub(crate) const MAX_NUDGES: u64 = 64;

impl Connection {
    /// Records that no more data is available although the congestion window permits sending (RFC 9002 §7.8).
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

    /// Returns whether frames other than ACK are pending that the path `id` may carry.
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

    /// Returns the frames that a packet of `space` on the path may carry; `None` if no packet is to be sent.
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
        // If another path replaces a failing one, the failing path sends challenges instead of probes, and
        // the other path carries the failing path's acknowledgments.
        let replaced = space == SpaceId::Data && path.is_failing && self.paths.stand_in(path).is_some();
        let probe = path.recovery.probes(space) > 0 && !replaced;
        let (ack_due, ack) = match Self::level_index(space) {
            Some(index) => self.levels.get(index).map_or((false, false), |level| {
                (level.owes_ack(now) && level.acks.allows(now), level.received.ack.can_ack())
            }),
            None if kind == PacketKind::ZeroRtt => (false, false),
            None => self.paths.acks_on(now, path),
        };
        // Early data in flight must not delay the handshake, because it is neither acknowledged nor probed
        // for until the handshake proceeds (RFC 9002 §6.2.1). A handshake space with no ack-eliciting packet
        // in flight may therefore send even if the window is full. Afterwards the PTO decides when that space
        // sends again.
        let stuck = space != SpaceId::Data && !path.recovery.unacked(space).any(|sent| sent.ack_eliciting);
        let allowed = window_open || probe || stuck;
        // If the scheduler has chosen no path, a probe carries data that would otherwise wait for a path with
        // room.
        let lone = probe && path.is_usable();
        let carries = |pick: &Pick| pick.path == Some(id) || lone && pick.path.is_none();
        let (control, streams) = (carries(&turn.control), turn.kinds(id, lone));
        let data = allowed
            && match Self::level_index(space) {
                Some(index) => self.levels.get(index).is_some_and(|level| level.crypto.has_pending()),
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

    /// Delays a due ACK of the handshake until the budget allows it, and sets the connection's timer.
    pub(in crate::connection) fn hold_ack(&mut self, now: Time, space: SpaceId) {
        let Some(index) = Self::level_index(space) else { return };
        let level = self.levels.get_mut(index);
        if level.owes_ack(now) && !level.acks.allows(now) {
            level.acks.hold();
        }
    }

    /// Returns whether frames other than ACK are pending for a 0-RTT or 1-RTT packet.
    pub(in crate::connection) fn has_data(&self, path: &Path, kind: PacketKind, turn: &Turn) -> bool {
        path.ping || turn.shared && self.has_shared(path, kind) || self.paths.has_copies(path.id)
    }

    /// Returns whether frames are pending that `path` may carry and that are not bound to it.
    pub(in crate::connection) fn has_shared(&self, path: &Path, kind: PacketKind) -> bool {
        self.has_streams() || self.has_control(path, kind)
    }

    pub(in crate::connection) fn has_streams(&self) -> bool {
        self.streams.has_pending_data() || self.datagrams.has_pending()
    }

    /// Returns whether control frames are pending that `path` may carry.
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

    /// Returns whether control frames for which the scheduler chooses a path are pending.
    pub(in crate::connection) fn has_shared_control(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_control(self.paths.list.main(), kind))
    }

    /// Returns whether data or control frames for which the scheduler chooses a path are pending.
    pub(in crate::connection) fn has_shared_data(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_shared(self.paths.list.main(), kind))
    }
}
