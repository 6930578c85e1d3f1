//! Assembly of pending frames into batches of datagrams (RFC 9000 §12.2, §13, §14).

mod close;
mod deal;
mod draft;
mod frames;
mod named;
mod owed;
mod packet;
mod run;
mod validation;

use anabranch_recovery::{Permit, QueueLimit};
use anabranch_tls::TAG_LEN;
use anabranch_wire::{Ecn, PacketKind, PathId, SpaceId, Time};

use self::draft::{Draft, Target};
#[cfg(test)]
pub(crate) use self::{owed::MAX_NUDGES, packet::forge::Forged, run::IN_RUNS};
use crate::connection::connection::Connection;
use crate::connection::parts::State;
use crate::datagram_io::MIN_INITIAL_SIZE;
use crate::datagram_io::{Transmit, TransmitBuf};
use crate::path::{MIN_PACKET_ROOM, Path, Tried, Turn};
use crate::trace::TraceEvent;

/// Maximum length of a 1-RTT header without its connection ID, plus the tag, in bytes.
const ONE_RTT_OVERHEAD: usize = 1 + 4 + TAG_LEN;

/// Length that the empty stream hint adds to the header of a packet without stream data, in bytes, in formats
/// with stream hints.
const NO_STREAM_NAMED: usize = 2;

impl Connection {
    /// Returns the next batch to send; `None` if nothing more can be sent now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if !self.state.is_active() {
            self.output.dealt = None;
        }
        match &self.state {
            State::Active => {
                if let Some(transmit) = self.take_dealt(out) {
                    return Some(transmit);
                }
            }
            State::Closing(closing) if closing.owed => return self.transmit_close(now, out),
            State::Draining { answer: Some(_), .. } => return self.transmit_close(now, out),
            State::Closing(_) | State::Draining { .. } | State::Drained => return None,
        }
        self.update_keys_if_due(now);
        self.report_states(now);
        let mut tried = Tried::new();
        loop {
            let turn = self.next_turn(now, &tried);
            for index in 0..self.paths.list.len() {
                let id = self.paths.list.nth(index);
                let transmit = self
                    .transmit_validation(now, id, out)
                    .or_else(|| self.transmit_path(now, id, &turn, out));
                if transmit.is_some() {
                    return transmit;
                }
            }
            // Chosen paths that may not send now, for instance because of their pacers, are excluded from the
            // next turn, so that the scheduler chooses other paths.
            let tried_before = tried.len();
            if self.paths.list.len() > 1 && turn.shared && self.has_shared_data() {
                for id in turn.data_picks().chain([&turn.control]).filter_map(|pick| pick.path) {
                    if !tried.contains(&id) {
                        tried.push(id);
                    }
                }
            }
            // While data waits for a pacer or for a better path, no copies of data in flight are queued.
            if tried.len() == tried_before && (self.has_streams() || !self.reinject(now)) {
                self.trace_idle(now);
                return None;
            }
        }
    }

    /// Returns the room for frames in a full-size 1-RTT packet on `path`, in bytes.
    pub(in crate::connection) fn one_rtt_room(&self, path: &Path) -> usize {
        let named = if self.format.names_stream { NO_STREAM_NAMED } else { 0 };
        let header = ONE_RTT_OVERHEAD + named + path.remote_cids.active().len();
        usize::from(path.recovery.mtu()).saturating_sub(header)
    }

    /// Returns the room for frames in a full-size packet, in bytes, on the usable path with the least room. A
    /// DATAGRAM frame of this size fits on every usable path.
    pub(in crate::connection) fn datagram_room(&self) -> usize {
        let usable = self.paths.list.iter().filter(|path| path.is_usable());
        let smallest = usable.map(|path| self.one_rtt_room(path)).min();
        smallest.unwrap_or_else(|| self.one_rtt_room(self.paths.list.main()))
    }

    fn update_keys_if_due(&mut self, now: Time) {
        let confirmed = self.handshake.progress.confirmed;
        let Some(keys) = self.keys.one_rtt.as_mut().filter(|keys| confirmed && keys.update_due(now)) else {
            return;
        };
        let retain = self.paths.list.max_pto() * 3;
        keys.update(now, self.format, false, retain);
        let generation = keys.generation;
        self.paths.begin_phase();
        self.trace(now, &TraceEvent::KeyUpdated { generation, remote: false });
    }

    /// Writes a batch of datagrams without validation frames on one path.
    fn transmit_path(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        let path =
            self.paths.list.get_mut(id).filter(|path| !path.is_abandoned() && !path.is_socket_blocked)?;
        path.paced_until = None;
        let tuple = path.tuple;
        let ect = path.recovery.ecn_mark();
        let ecn = ect.then_some(Ecn::Ect0);
        if let Some(transmit) = self.transmit_mtu_probe(now, id, out) {
            return Some(transmit);
        }
        if let Some(transmit) = self.deal(now, id, turn, out) {
            return Some(transmit);
        }
        let mtu = usize::from(self.paths.list.get(id)?.recovery.mtu());
        let mut most = out.most_of(mtu);
        for pick in turn.data_picks().filter(|pick| pick.path == Some(id) && pick.packets > 0) {
            most = most.min(pick.packets);
        }
        let buffer = out.room(most * mtu);
        let mut len = self.write_run(now, id, turn, buffer, mtu, ect);
        let mut runs = len == 0;
        // Only the last datagram may be shorter. Sealing a packet may end the connection.
        while buffer.len() - len >= mtu && len.is_multiple_of(mtu) && self.state.is_active() {
            let written = self.write_datagram(now, id, turn, &mut buffer[len..len + mtu], ect);
            len += written;
            if written < mtu {
                break;
            }
            if std::mem::take(&mut runs) {
                len += self.write_run(now, id, turn, &mut buffer[len..], mtu, ect);
            }
        }
        (len > 0).then(|| Transmit { tuple, ecn, len, segment_size: mtu.min(len) })
    }

    /// Writes one datagram and returns its length; 0 if nothing is to be sent or may be sent.
    fn write_datagram(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        datagram: &mut [u8],
        ect: bool,
    ) -> usize {
        let Some(path) = self.paths.list.get_mut(id) else { return 0 };
        if path.is_amplification_blocked() {
            return 0;
        }
        let room = usize::try_from(path.data_budget()).unwrap_or(usize::MAX).min(datagram.len());
        let datagram = &mut datagram[..room];
        let permit = path.recovery.permit(now);
        let window_open = matches!(permit, Permit::Bytes(_)) && !self.is_queue_long(now, id);
        let mut at = 0;
        let mut held: Option<Draft> = None;
        let mut pad = false;
        let mut sent_handshake = false;
        for space in SpaceId::ALL {
            let Some(kind) = self.kind_for(space) else { continue };
            self.hold_ack(now, space);
            if kind == PacketKind::Initial && room < MIN_INITIAL_SIZE {
                continue; // RFC 9000 §14.1: the Initial could not be padded to 1200 bytes.
            }
            let Some(fill) = self.fill_for(now, id, space, kind, window_open, turn) else { continue };
            if datagram.len() - at < MIN_PACKET_ROOM {
                break;
            }
            let target = Target { path: id, space, kind, dcid: None, announced: None };
            let draft = self.draft_filled(now, target, fill, &mut datagram[at..], at);
            let Some(draft) = draft else { continue };
            if space == SpaceId::Data {
                self.copy_as_picked(id, turn, &draft);
            }
            at = draft.end;
            // RFC 9000 §14.1
            pad |= kind == PacketKind::Initial && (self.side.is_client() || draft.is_eliciting());
            sent_handshake |= kind == PacketKind::Handshake;
            if let Some(previous) = held.replace(draft) {
                let end = previous.end;
                if !self.seal_or_fail(now, id, datagram, previous, end, ect) {
                    return 0;
                }
            }
        }
        if let Permit::Wait(until) = permit {
            self.note_paced(id, turn, until);
        }
        let Some(last) = held else {
            self.note_app_limited(now, id, turn, window_open);
            return 0;
        };
        let len = if pad { at.max(MIN_INITIAL_SIZE.min(datagram.len())) } else { at };
        if !self.seal_or_fail(now, id, datagram, last, len, ect) {
            return 0;
        }
        if let Some(path) = self.paths.list.get_mut(id) {
            path.on_datagram_sent(len);
        }
        if len < datagram.len() {
            self.note_app_limited(now, id, turn, window_open);
        }
        if sent_handshake && self.side.is_client() {
            self.discard_space(now, SpaceId::Initial); // RFC 9001 §4.9.1
        }
        len
    }

    /// Returns whether another packet would lengthen the queue of a path although messages of flows want short ones.
    fn is_queue_long(&mut self, now: Time, id: PathId) -> bool {
        if !self.datagrams.wants_short_queues(now) {
            return false;
        }
        let has_streams = self.streams.has_pending_data();
        let limit = if !has_streams && self.datagrams.is_one_flow(now) {
            QueueLimit::Moderate
        } else if has_streams || self.paths.is_home(id) {
            QueueLimit::Searching
        } else {
            // Messages that spill onto another path need no more bandwidth than they find there.
            QueueLimit::Short
        };
        let Some(path) = self.paths.list.get_mut(id) else { return false };
        let is_long = path.recovery.would_queue(now, limit);
        if is_long {
            path.recovery.keep_short();
        }
        is_long
    }

    /// Queues copies of the packet's data for other paths, as the scheduler decided.
    fn copy_as_picked(&mut self, id: PathId, turn: &Turn, draft: &Draft) {
        if let Some(others) = turn.copied_to(id) {
            self.paths.copy_to(others, draft.tokens());
        }
    }

    /// Records when the pacer permits the next packet, if data is waiting.
    fn note_paced(&mut self, id: PathId, turn: &Turn, until: Time) {
        let waiting = self.is_waiting(id, turn);
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if waiting {
            path.paced_until = Some(until);
            path.recovery.network_limited();
        }
    }

    /// Seals a packet. If that fails, closes the connection and returns `false`.
    fn seal_or_fail(
        &mut self,
        now: Time,
        id: PathId,
        datagram: &mut [u8],
        draft: Draft,
        end: usize,
        ect: bool,
    ) -> bool {
        match self.seal(now, id, datagram, draft, end, ect) {
            Ok(()) => true,
            Err(error) => {
                self.fail(now, error);
                false
            }
        }
    }
}
