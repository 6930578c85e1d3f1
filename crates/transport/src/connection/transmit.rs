//! From what is owed to batches of datagrams (RFC 9000 §12.2, §13, §14).

use anabranch_recovery::Permit;
use anabranch_tls::TAG_LEN;
use anabranch_wire::{Ecn, Frame, PacketKind, PathId, SpaceId, Time};

use super::close::State;
use super::connection::Connection;
use super::packet::{Draft, Fill, Target};
use crate::datagram_io::{FourTuple, MAX_BATCH_BYTES, Transmit, TransmitBuf};
use crate::path::{MIN_PACKET_ROOM, Path, Tried, Turn};
use crate::schedule::Pick;
use crate::token::Token;
use crate::trace::TraceEvent;

/// Smallest datagram that carries an Initial packet or validates a path (RFC 9000 §14.1, §8.2.1).
pub(crate) const MIN_INITIAL_SIZE: usize = 1200;

/// Packets in a row without anything to acknowledge after which a PING is added, so that the ranges that this end has
/// acknowledged can be forgotten (RFC 9000 §13.2.4).
const ACK_ONLY_LIMIT: u32 = 32;

/// Packets under way that ask for an acknowledgment beyond which no PING is added: a peer that answers none of them answers
/// no further one.
pub(crate) const MAX_NUDGES: u64 = 64;

/// Longest header of a 1-RTT packet plus tag.
const ONE_RTT_OVERHEAD: usize = 1 + 4 + TAG_LEN;

/// What the header of a packet without stream data has beyond that in formats that name streams.
const NO_STREAM_NAMED: usize = 2;

impl Connection {
    /// The next batch to send; `None` when there is nothing (more) to send now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        match &self.state {
            State::Active => {}
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
            // A path that is held back, by its pacer for instance, leaves the turn to others.
            let tried_before = tried.len();
            if self.paths.list.len() > 1 && turn.shared && self.has_shared_data() {
                for id in turn.data_picks().chain([&turn.control]).filter_map(|pick| pick.path) {
                    if !tried.contains(&id) {
                        tried.push(id);
                    }
                }
            }
            // What waits for a pacer, or for a better path, is no reason to send anything twice.
            if tried.len() == tried_before && (self.has_streams() || !self.reinject(now)) {
                return None;
            }
        }
    }

    /// Room for frames in a 1-RTT packet of full size on `path`.
    pub(super) fn one_rtt_room(&self, path: &Path) -> usize {
        let named = if self.format.names_stream { NO_STREAM_NAMED } else { 0 };
        let header = ONE_RTT_OVERHEAD + named + path.remote_cids.active().len();
        usize::from(path.recovery.mtu()).saturating_sub(header)
    }

    /// Room for frames in a packet of full size on whichever path it may leave, so that a DATAGRAM fits every one.
    pub(super) fn datagram_room(&self) -> usize {
        let usable = self.paths.list.iter().filter(|path| path.is_usable());
        let smallest = usable.map(|path| self.one_rtt_room(path)).min();
        smallest.unwrap_or_else(|| self.one_rtt_room(self.paths.list.main()))
    }

    fn update_keys_if_due(&mut self, now: Time) {
        let confirmed = self.handshake.confirmed;
        let Some(keys) = self.keys.one_rtt.as_mut().filter(|keys| confirmed && keys.update_due(now)) else {
            return;
        };
        let retain = self.paths.list.max_pto() * 3;
        keys.update(now, self.format, false, retain);
        let generation = keys.generation;
        self.paths.begin_phase();
        self.trace(now, &TraceEvent::KeyUpdated { generation, remote: false });
    }

    /// A batch of ordinary datagrams on one path.
    fn transmit_path(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        let path = self.paths.list.get_mut(id).filter(|path| !path.is_abandoned() && !path.is_held)?;
        path.paced_until = None;
        let tuple = path.tuple;
        let ect = path.recovery.ecn_mark();
        let ecn = ect.then_some(Ecn::Ect0);
        if let Some(transmit) = self.transmit_mtu_probe(now, id, out) {
            return Some(transmit);
        }
        let mtu = usize::from(self.paths.list.get(id)?.recovery.mtu());
        let mut most = out.max_datagrams().min(MAX_BATCH_BYTES / mtu).max(1);
        for pick in turn.data_picks().filter(|pick| pick.path == Some(id) && pick.packets > 0) {
            most = most.min(pick.packets);
        }
        let buffer = out.room(most * mtu);
        let mut len = 0;
        for _ in 0..most {
            let written = self.write_datagram(now, id, turn, &mut buffer[len..len + mtu], ect);
            len += written;
            if written < mtu {
                break;
            }
        }
        (len > 0).then(|| Transmit { tuple, ecn, len, segment_size: mtu.min(len) })
    }

    /// Writes one datagram; its length, 0 if there is nothing to send or nothing may be sent.
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
        let window_open = matches!(permit, Permit::Bytes(_));
        let mut at = 0;
        let mut held: Option<Draft> = None;
        let mut pad = false;
        let mut sent_handshake = false;
        for space in SpaceId::ALL {
            let Some(kind) = self.kind_for(space) else { continue };
            self.hold_ack(now, space);
            if kind == PacketKind::Initial && room < MIN_INITIAL_SIZE {
                continue; // RFC 9000 §14.1: it could not be padded.
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

    /// A scheduler may want what it has just sent to go out on other paths, too.
    fn copy_as_picked(&mut self, id: PathId, turn: &Turn, draft: &Draft) {
        for pick in turn.data_picks().chain([&turn.control]) {
            if pick.path == Some(id) && !pick.also.is_empty() {
                self.paths.copy_to(&pick.also, draft.tokens());
                return;
            }
        }
    }

    /// The pacer holds back: wake up when it does no longer, if there is something to send.
    fn note_paced(&mut self, id: PathId, turn: &Turn, until: Time) {
        let waiting = self.is_waiting(id, turn);
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if waiting {
            path.paced_until = Some(until);
            path.recovery.network_limited();
        }
    }

    /// Nothing is left to send although it could be (RFC 9002 §7.8).
    fn note_app_limited(&mut self, now: Time, id: PathId, turn: &Turn, window_open: bool) {
        if window_open
            && !self.is_waiting(id, turn)
            && let Some(path) = self.paths.list.get_mut(id)
        {
            path.recovery.app_limited(now);
        }
    }

    /// Whether there is anything that waits for permission to be sent.
    fn is_waiting(&self, id: PathId, turn: &Turn) -> bool {
        self.levels.iter().any(|level| level.crypto.has_pending())
            || self.data_kind().is_some_and(|kind| {
                self.paths.list.get(id).is_some_and(|path| self.has_data(path, kind, turn))
            })
    }

    /// Seals a packet; false if that failed, which ends the connection and leaves nothing to send.
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

    fn kind_for(&self, space: SpaceId) -> Option<PacketKind> {
        match space {
            SpaceId::Initial => self.keys.initial.is_some().then_some(PacketKind::Initial),
            SpaceId::Handshake => self.keys.handshake.is_some().then_some(PacketKind::Handshake),
            SpaceId::Data => self.data_kind(),
        }
    }

    /// What a packet of `space` on the path would be for; `None` if there is no reason to send one.
    fn fill_for(
        &self,
        now: Time,
        id: PathId,
        space: SpaceId,
        kind: PacketKind,
        window_open: bool,
        turn: &Turn,
    ) -> Option<Fill> {
        let path = self.paths.list.get(id)?;
        // Another path stands in for one that fails: it is asked with challenges instead of probes, and acknowledgments leave there.
        let replaced = space == SpaceId::Data && path.is_failing && self.paths.stand_in(path).is_some();
        let probe = path.recovery.probes(space) > 0 && !replaced;
        let (ack_due, ack) = match Self::level_index(space) {
            Some(index) => {
                let level = &self.levels[index];
                (level.owes_ack(now) && level.acks.allows(now), level.received.debt.can_ack())
            }
            None if kind == PacketKind::ZeroRtt => (false, false),
            None => self.paths.acks_on(now, path),
        };
        // Early data of either end must not keep the handshake waiting: it is not acknowledged, nor probed for, before the
        // handshake goes on (RFC 9002 §6.2.1). One flight at a time, so that the probe timeout governs.
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

    /// An acknowledgment of the handshake that is due waits for its turn, and the connection's timer with it.
    fn hold_ack(&mut self, now: Time, space: SpaceId) {
        let Some(index) = Self::level_index(space) else { return };
        let level = &mut self.levels[index];
        if level.owes_ack(now) && !level.acks.allows(now) {
            level.acks.hold();
        }
    }

    /// Whether there are frames for a 0-RTT or 1-RTT packet besides acknowledgments.
    fn has_data(&self, path: &Path, kind: PacketKind, turn: &Turn) -> bool {
        path.ping || turn.shared && self.has_shared(path, kind) || self.paths.has_copies(path.id)
    }

    /// Whether there are frames that `path` may carry and that are not about it alone.
    fn has_shared(&self, path: &Path, kind: PacketKind) -> bool {
        self.has_streams() || self.has_control(path, kind)
    }

    pub(super) fn has_streams(&self) -> bool {
        self.streams.has_pending_data() || self.datagrams.has_pending()
    }

    /// Whether there are control frames that `path` may carry.
    fn has_control(&self, path: &Path, kind: PacketKind) -> bool {
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

    /// Whether there are control frames that the scheduler decides about.
    pub(super) fn has_shared_control(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_control(self.paths.list.main(), kind))
    }

    /// Whether anything waits that the scheduler decides about.
    pub(super) fn has_shared_data(&self) -> bool {
        self.data_kind().is_some_and(|kind| self.has_shared(self.paths.list.main(), kind))
    }

    /// A probe for a larger MTU (RFC 8899): a PING, padded.
    fn transmit_mtu_probe(&mut self, now: Time, id: PathId, out: &mut TransmitBuf) -> Option<Transmit> {
        if !self.handshake.confirmed {
            return None;
        }
        let path = self.paths.list.get_mut(id).filter(|path| path.validated && path.is_usable())?;
        let tuple = path.tuple;
        let size = usize::from(path.recovery.mtu_probe(now)?);
        let datagram = out.room(size);
        let target =
            Target { path: id, space: SpaceId::Data, kind: PacketKind::OneRtt, dcid: None, announced: None };
        let mut draft = self.draft(target, datagram, 0, |_, writer, tokens| {
            if writer.frame(&Frame::Ping).is_ok() {
                tokens.push(Token::Ping);
            }
        })?;
        draft.mtu_probe = true;
        if !self.seal_or_fail(now, id, datagram, draft, size, false) {
            return None;
        }
        self.paths.list.get_mut(id)?.on_datagram_sent(size);
        Some(Transmit { tuple, ecn: None, len: size, segment_size: size })
    }

    /// A datagram that validates a path: challenges that are due, responses that are owed (RFC 9000 §8.2). Alone, so that
    /// it can have another destination and always has full size.
    fn transmit_validation(&mut self, now: Time, id: PathId, out: &mut TransmitBuf) -> Option<Transmit> {
        self.paths.list.get(id).filter(|path| path.owes_validation())?;
        self.keys.one_rtt.as_ref()?;
        if !self.handshake.complete {
            return None;
        }
        let (tuple, dcid, budget) = self.paths.next_validation(now, id)?;
        let len = MIN_INITIAL_SIZE.min(usize::try_from(budget).unwrap_or(usize::MAX));
        let datagram = out.room(MIN_INITIAL_SIZE);
        let on_path = self.paths.list.get(id)?.tuple == tuple;
        let target = Target {
            path: id,
            space: SpaceId::Data,
            kind: PacketKind::OneRtt,
            dcid: Some(dcid),
            announced: None,
        };
        let mut draft = self.draft(target, &mut datagram[..len], 0, |this, writer, tokens| {
            this.fill_validation(now, id, &tuple, len >= MIN_INITIAL_SIZE, writer, tokens);
        })?;
        // Packets to other addresses say nothing about the path's congestion.
        draft.tracked = on_path;
        if !self.seal_or_fail(now, id, datagram, draft, len, false) {
            return None;
        }
        let path = self.paths.list.get_mut(id)?;
        if on_path {
            path.on_datagram_sent(len);
        }
        Some(Transmit { tuple, ecn: None, len, segment_size: len })
    }

    fn fill_validation(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        padded: bool,
        writer: &mut anabranch_wire::Writer<'_>,
        tokens: &mut crate::token::Tokens,
    ) {
        let challenge: [u8; 8] = self.random.bytes();
        // Where the addresses alone do not say which path this is, the challenge does.
        let names_path = self.paths.numbering.is_single();
        let Some(path) = self.paths.list.get_mut(id) else { return };
        let due = path.validations.iter_mut().find(|v| v.tuple == *tuple && v.challenge_due(now));
        let asks = due.is_some();
        if let Some(validation) = due
            && writer.frame(&Frame::PathChallenge(challenge)).is_ok()
        {
            validation.on_sent(now, challenge, padded);
            tokens.push(Token::Ping);
            if names_path {
                let sequence = path.local_status.announce();
                let available = path.local_status.available;
                // It fits, and goes out with each challenge anew, as long as none is answered.
                let _ = writer.frame(&Frame::PathStatus { path: id, available, sequence });
            }
        }
        // All at once: each in a datagram of its own, the challenges of one datagram would draw more than three times its size.
        while let Some(response) = path.responses.pop_for(tuple) {
            if writer.frame(&Frame::PathResponse(response.data)).is_ok() {
                tokens.push(Token::Ping);
            }
        }
        if asks && path.tuple == *tuple {
            self.paths.fill_last_word(id, writer, tokens);
        }
        // At the end: under the amplification limit there may be no room for more than what validates.
        if self.paths.multipath.is_some() || !padded {
            self.fill_validation_ack(now, id, tuple, writer, tokens);
        }
    }

    /// An acknowledgment goes along with what validates the path's own addresses: a first round-trip time without the peer's
    /// deliberate delay keeps the probe timeout of a fresh path short, and a datagram that takes all that the amplification
    /// limit allows leaves none for an acknowledgment of its own.
    fn fill_validation_ack(
        &mut self,
        now: Time,
        id: PathId,
        tuple: &FourTuple,
        writer: &mut anabranch_wire::Writer<'_>,
        tokens: &mut crate::token::Tokens,
    ) {
        let own = |path: &&Path| path.tuple == *tuple && path.received.debt.can_ack();
        if self.paths.list.get(id).filter(own).is_none_or(|path| self.paths.stand_in(path).is_some()) {
            return;
        }
        let exponent = self.handshake.local_parameters.as_ref().map_or(3, |p| p.ack_delay_exponent);
        let multipath = self.paths.multipath.is_some();
        let Some(path) = self.paths.list.get_mut(id) else { return };
        self.paths.numbering.write_ack(&mut path.received, now, writer, multipath, exponent, tokens);
    }

    /// CONNECTION_CLOSE in every packet type that the peer may be able to read (RFC 9000 §10.2.3).
    fn transmit_close(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (close, wanted) = self.take_close()?;
        let usable = |id: &PathId| self.paths.list.get(*id).is_some_and(Path::is_usable);
        let id =
            wanted.filter(usable).or_else(|| self.paths.shortest_path()).unwrap_or(self.paths.list.main().id);
        // A peer that was just heard on a path that this end has given up may listen nowhere else: it is answered there, but with
        // what belongs to another path.
        let answers = |id: &PathId| {
            let room = MIN_PACKET_ROOM as u64;
            self.paths
                .list
                .get(*id)
                .is_some_and(|path| path.is_abandoned() && path.amplification_budget() >= room)
        };
        let over = wanted.filter(answers).unwrap_or(id);
        let path = self.paths.list.get(over)?;
        let tuple = path.tuple;
        let budget = usize::try_from(path.amplification_budget()).unwrap_or(usize::MAX);
        let datagram = out.room(MIN_INITIAL_SIZE);
        let datagram = &mut datagram[..MIN_INITIAL_SIZE.min(budget)];
        let mut at = 0;
        let mut pad = false;
        let kinds: Vec<(SpaceId, PacketKind)> =
            self.close_kinds().filter(|(_, kind)| self.keys.seal(*kind).is_some()).collect();
        let mut held: Option<Draft> = None;
        for (space, kind) in kinds {
            let target = Target { path: id, space, kind, dcid: None, announced: None };
            let draft = self.draft(target, &mut datagram[at..], at, |_, writer, _| {
                // A reason that does not fit is left out rather than the whole frame; the room is ample.
                let _ = writer.frame(&close.frame(kind));
            });
            let Some(draft) = draft else { continue };
            at = draft.end;
            pad |= kind == PacketKind::Initial && self.side.is_client();
            if let Some(previous) = held.replace(draft) {
                let end = previous.end;
                self.seal(now, id, datagram, previous, end, false).ok()?;
            }
        }
        let last = held?;
        let len = if pad { at.max(datagram.len()) } else { at };
        self.seal(now, id, datagram, last, len, false).ok()?;
        self.paths.list.get_mut(over)?.on_datagram_sent(len);
        Some(Transmit { tuple, ecn: None, len, segment_size: len })
    }
}
