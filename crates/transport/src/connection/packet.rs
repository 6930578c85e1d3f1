//! One packet: drafted frame by frame, then padded, sealed and masked.

use anabranch_recovery::Sent;
use anabranch_tls::TAG_LEN;
use anabranch_wire::{
    Announced, Frame, Outgoing, PacketKind, PathId, SpaceId, Time, Writer, unacked_numbers,
};

use super::connection::Connection;
use crate::error::TransportError;
use crate::path::Path;
use crate::schedule::{Carrier, Kinds};
use crate::space::Numbered;
use crate::token::{Token, Tokens};
use crate::trace::{PacketTrace, TraceEvent};

/// What a packet may carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// An ACK frame.
    pub(super) ack: bool,
    /// Frames that the peer has to acknowledge.
    pub(super) data: bool,
    /// Those among them that any path may carry: control frames.
    pub(super) control: bool,
    /// Those among them that any path may carry: data of streams and datagrams, by kind.
    pub(super) streams: Kinds,
    /// At least a PING, so that the packet is acknowledged.
    pub(super) probe: bool,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) path: PathId,
    pub(super) space: SpaceId,
    pub(super) kind: PacketKind,
    /// The peer's connection ID, if not the one in use on the path.
    pub(super) dcid: Option<anabranch_wire::ConnectionId>,
    /// What the header says of the packet's stream data.
    pub(super) announced: Option<Announced>,
}

/// A packet whose frames are written but not yet protected.
pub(super) struct Draft {
    pub(super) kind: PacketKind,
    pub(super) space: SpaceId,
    /// Where it starts in the datagram, and where it will end, tag included.
    pub(super) start: usize,
    pub(super) end: usize,
    outgoing: Outgoing,
    numbered: Numbered,
    tokens: Tokens,
    /// Recovery counts it as in flight.
    pub(super) tracked: bool,
    pub(super) mtu_probe: bool,
}

impl Draft {
    /// What its frames owe.
    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Whether the peer has to acknowledge it.
    pub(super) fn is_eliciting(&self) -> bool {
        is_eliciting(&self.tokens)
    }
}

fn is_eliciting(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| !matches!(token, Token::Ack { .. }))
}

impl Connection {
    /// Writes the header of a packet on `path` and has `fill` write its frames; `None` if there were none or no room.
    /// `start` is where `room` begins in its datagram.
    pub(super) fn draft(
        &mut self,
        target: Target,
        room: &mut [u8],
        start: usize,
        fill: impl FnOnce(&mut Self, &mut Writer<'_>, &mut Tokens),
    ) -> Option<Draft> {
        let Target { path, space, kind, .. } = target;
        let numbered = self.next_number(path, space);
        let outgoing = self.write_header(&target, room, numbered.number)?;
        let limit = room.len().checked_sub(TAG_LEN).filter(|limit| *limit > outgoing.header_len)?;
        let mut writer = Writer::new(&mut room[outgoing.header_len..limit], self.format.direction);
        let mut tokens = Tokens::new();
        fill(self, &mut writer, &mut tokens);
        if writer.is_empty() {
            return None;
        }
        writer.pad_to(self.format.min_payload(&outgoing));
        let end = start + outgoing.header_len + writer.len() + TAG_LEN;
        Some(Draft { kind, space, start, end, outgoing, numbered, tokens, tracked: true, mtu_probe: false })
    }

    /// A packet of what is owed in its space.
    #[inline]
    pub(super) fn draft_filled(
        &mut self,
        now: Time,
        target: Target,
        fill: Fill,
        room: &mut [u8],
        start: usize,
    ) -> Option<Draft> {
        let Target { path, space, kind, .. } = target;
        if space == SpaceId::Data && self.format.names_stream {
            return self.draft_named(now, target, fill, room, start);
        }
        self.draft(target, room, start, |this, writer, tokens| match space {
            SpaceId::Data => this.fill_data(now, path, kind, fill, writer, tokens),
            _ => this.fill_handshake(now, path, space, fill, writer, tokens),
        })
    }

    fn next_number(&mut self, path: PathId, space: SpaceId) -> Numbered {
        match Self::level_index(space) {
            Some(index) => {
                let number = self.levels[index].next_number;
                Numbered { number, order: number }
            }
            None => {
                let packets = |path: &Path| path.recovery.window() / u64::from(path.recovery.mtu()).max(1);
                let window =
                    self.config.skip_packet_numbers.then(|| self.paths.list.get(path).map_or(0, packets));
                self.paths.numbering.next(path, &mut self.random, window)
            }
        }
    }

    fn write_header(&self, target: &Target, room: &mut [u8], number: u64) -> Option<Outgoing> {
        let Target { path, space, kind, dcid, announced } = *target;
        let dcid = match dcid {
            Some(dcid) => dcid,
            None => self.paths.list.get(path)?.remote_cids.active(),
        };
        let fixed_bit = self.fixed_bit(number);
        if kind == PacketKind::OneRtt {
            let unacked = self.paths.numbering.unacked(path, number);
            let phase = self.keys.one_rtt.as_ref()?.phase;
            return self.format.write_short(room, &dcid, false, phase, number, unacked, fixed_bit, announced);
        }
        let unacked = match Self::level_index(space) {
            Some(index) => unacked_numbers(number, self.levels[index].largest_acked),
            None => self.paths.numbering.unacked(path, number),
        };
        let token: &[u8] =
            if kind == PacketKind::Initial && self.side.is_client() { &self.handshake.token } else { &[] };
        self.format.write_long(
            room,
            kind,
            &dcid,
            &self.first_local_cid,
            token,
            number,
            unacked,
            fixed_bit,
            announced,
        )
    }

    /// The bit that peers should ignore, if they say that they do (RFC 9287 §3).
    fn fixed_bit(&self, number: u64) -> bool {
        let peer = self.handshake.peer_parameters.as_ref();
        let grease =
            self.config.grease && self.handshake.complete && peer.is_some_and(|peer| peer.grease_quic_bit);
        !grease || self.grease_bits >> (number % 64) & 1 == 1
    }

    /// Pads, protects and accounts for a drafted packet. `datagram` is the whole datagram, `end` where the packet is to
    /// end in it, at least `draft.end`.
    pub(super) fn seal(
        &mut self,
        now: Time,
        path: PathId,
        datagram: &mut [u8],
        mut draft: Draft,
        end: usize,
        ect: bool,
    ) -> Result<(), TransportError> {
        if let (PacketKind::OneRtt, Some(keys)) = (draft.kind, &mut self.keys.one_rtt) {
            keys.on_sealing()?;
        }
        let padded = end > draft.end;
        datagram[draft.end - TAG_LEN..end - TAG_LEN].fill(0);
        draft.end = end;
        let packet = &mut datagram[draft.start..end];
        self.format.set_length(packet, &draft.outgoing);
        if self.observer.is_some() {
            self.trace_sent(now, path, packet, &draft);
        }
        let nonce_path = match draft.kind {
            PacketKind::OneRtt => self.paths.numbering.nonce_path(path),
            _ => PathId::ZERO,
        };
        let Some(keys) = self.keys.seal(draft.kind) else { return Ok(()) };
        keys.packet.seal(nonce_path, draft.numbered.number, draft.outgoing.header_len, packet);
        if let Some(sample) = self.format.sample(packet, draft.kind, draft.outgoing.pn_offset) {
            self.format.mask(packet, &draft.outgoing, &keys.header.mask(&sample));
        }
        let size = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        self.account(now, path, draft, size, padded, ect);
        Ok(())
    }

    fn account(&mut self, now: Time, id: PathId, draft: Draft, size: u16, padded: bool, ect: bool) {
        match Self::level_index(draft.space) {
            Some(index) => {
                let level = &mut self.levels[index];
                level.next_number = draft.numbered.number + 1;
                if !draft.is_eliciting() {
                    level.acks.on_sent(now);
                }
            }
            None => self.paths.numbering.commit(id, ect),
        }
        let eliciting = draft.is_eliciting();
        self.idle.on_sent(now, eliciting);
        if eliciting && draft.tracked && !draft.mtu_probe && draft.kind == PacketKind::OneRtt {
            self.paths.on_path_asked(now, id, &draft.tokens);
        }
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if draft.space == SpaceId::Data {
            path.ack_only_run = if eliciting { 0 } else { path.ack_only_run.saturating_add(1) };
        }
        let sent = Sent {
            time: now,
            size,
            ack_eliciting: eliciting && draft.tracked,
            in_flight: (eliciting || padded) && draft.tracked,
            ect,
            mtu_probe: draft.mtu_probe,
            owed: draft.tokens,
        };
        path.recovery.on_sent(draft.space, draft.numbered.order, sent);
    }

    fn trace_sent(&mut self, now: Time, path: PathId, packet: &[u8], draft: &Draft) {
        let payload = &packet[draft.outgoing.header_len..packet.len() - TAG_LEN];
        let long = draft.kind != PacketKind::OneRtt;
        let dcid = self.paths.list.get(path).map_or(self.first_local_cid, |path| path.remote_cids.active());
        let trace = PacketTrace {
            kind: draft.kind,
            version: self.format.version,
            path,
            number: draft.numbered.number,
            dcid,
            scid: if long { self.first_local_cid } else { anabranch_wire::ConnectionId::EMPTY },
            key_phase: self.keys.one_rtt.as_ref().is_some_and(|keys| keys.phase),
            size: packet.len(),
            payload,
            direction: self.format.direction,
        };
        self.trace(now, &TraceEvent::PacketSent(trace));
    }

    /// Frames of an Initial or Handshake packet.
    pub(super) fn fill_handshake(
        &mut self,
        now: Time,
        path: PathId,
        space: SpaceId,
        fill: Fill,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        let Some(index) = Self::level_index(space) else { return };
        if fill.ack {
            self.levels[index].received.write_ack(now, writer, space, false, 0, tokens);
        }
        if fill.probe && !self.levels[index].crypto.has_pending() {
            // The probe before this one has taken what was to be repeated. An Initial without CRYPTO is of no use to a peer that
            // has nothing yet, and some close over it.
            self.repeat_oldest(path, space);
        }
        if fill.data {
            self.levels[index].crypto.write(space, writer, tokens);
        }
        if fill.probe && !is_eliciting(tokens) {
            write_ping(writer, tokens);
        }
    }

    /// Frames of a 0-RTT or 1-RTT packet, in one fixed order.
    pub(super) fn fill_data(
        &mut self,
        now: Time,
        id: PathId,
        kind: PacketKind,
        fill: Fill,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        self.fill_frames(now, id, kind, fill, writer, tokens);
        let carrier = self.carrier(id, fill.streams);
        if fill.data && fill.streams.any() {
            self.fill_datagrams(&carrier, writer, tokens);
            self.streams.write_data(&carrier, writer, tokens);
        }
        if fill.data && self.paths.multipath.is_some() {
            self.fill_copies(&carrier, writer, tokens);
        }
        self.fill_ping(id, fill, writer, tokens);
    }

    /// All frames that carry no data of the application.
    pub(super) fn fill_frames(
        &mut self,
        now: Time,
        id: PathId,
        kind: PacketKind,
        fill: Fill,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if fill.ack && kind == PacketKind::OneRtt {
            self.fill_acks(now, id, writer, tokens);
        }
        if fill.data && fill.control {
            if kind == PacketKind::OneRtt {
                self.fill_control(now, id, writer, tokens);
            }
            self.streams.write_control(writer, tokens);
        }
    }

    pub(super) fn fill_datagrams(&mut self, carrier: &Carrier, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        if carrier.kinds.new && self.datagrams.has_pending() {
            // The MTU may have fallen since they were queued: those that never fit again must not block the others.
            let room = self.datagram_room();
            self.datagrams.set_packet_room(room);
            self.datagrams.write(carrier, writer, tokens);
        }
    }

    /// A PING, if the packet is to be acknowledged and holds nothing else for that.
    pub(super) fn fill_ping(&mut self, id: PathId, fill: Fill, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if (fill.probe || path.ping && fill.data) && !is_eliciting(tokens) {
            write_ping(writer, tokens);
        }
        if is_eliciting(tokens) {
            path.ping = false;
        }
    }

    /// Frames that only 1-RTT packets carry.
    fn fill_control(&mut self, now: Time, id: PathId, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        if self.pending.handshake_done && writer.frame(&Frame::HandshakeDone).is_ok() {
            self.pending.handshake_done = false;
            tokens.push(Token::HandshakeDone);
        }
        if self.handshake.data_crypto.has_pending() {
            self.handshake.data_crypto.write(SpaceId::Data, writer, tokens);
        }
        if self.pending.new_tokens > 0 && self.paths.list.main().validated {
            let token = self.make_token(now);
            if writer.frame(&Frame::NewToken { token: &token }).is_ok() {
                self.pending.new_tokens -= 1;
                tokens.push(Token::NewToken);
            }
        }
        if let Some(request) = self.pending.ack_frequency {
            let frame = Frame::AckFrequency {
                sequence: self.pending.ack_frequency_sequence,
                threshold: request.threshold,
                max_ack_delay_us: request.max_ack_delay_us,
                reordering_threshold: self.config.ack.frequency_rule.reordering_threshold(),
            };
            if writer.frame(&frame).is_ok() {
                self.pending.ack_frequency = None;
                tokens.push(Token::AckFrequency(self.pending.ack_frequency_sequence));
            }
        }
        if self.paths.multipath.is_some() {
            self.paths.fill_multipath(writer, tokens);
        } else if let Some(Path { local_cids, remote_cids, .. }) = self.paths.list.get_mut(id) {
            local_cids.write(writer, tokens, false);
            remote_cids.write(writer, tokens, false);
        }
    }
}

fn write_ping(writer: &mut Writer<'_>, tokens: &mut Tokens) {
    if writer.frame(&Frame::Ping).is_ok() {
        tokens.push(Token::Ping);
    }
}

#[cfg(test)]
#[path = "forge.rs"]
pub(crate) mod forge;
