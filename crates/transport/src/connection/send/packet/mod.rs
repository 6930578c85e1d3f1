//! Single packets: drafted frame by frame, then padded, sealed and header-protected.

use anabranch_recovery::Sent;
use anabranch_tls::TAG_LEN;
use anabranch_wire::{
    ConnectionId, NewLong, NewNumber, NewShort, Outgoing, PacketKind, PathId, SpaceId, Time,
    TransportErrorCode, Writer, unacked_numbers,
};

use super::draft::{Draft, Fill, Target};
use crate::connection::connection::Connection;
use crate::error::TransportError;
use crate::path::Path;
use crate::space::Numbered;
use crate::token::Tokens;
use crate::trace::{PacketTrace, TraceEvent};

impl Connection {
    /// Writes the header of a packet for `target` and calls `fill` to write its frames. Returns `None` if
    /// there were no frames or no room. `start` is the offset of `room` in its datagram.
    pub(in crate::connection) fn draft(
        &mut self,
        target: Target,
        room: &mut [u8],
        start: usize,
        fill: impl FnOnce(&mut Self, &mut Writer<'_>, &mut Tokens),
    ) -> Option<Draft> {
        let Target { path, space, kind, dcid, .. } = target;
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
        let (tracked, mtu_probe) = (true, false);
        Some(Draft { kind, space, dcid, start, end, outgoing, numbered, tokens, tracked, mtu_probe })
    }

    /// Drafts a packet with the pending frames of its space.
    #[inline]
    pub(in crate::connection) fn draft_filled(
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
                let number = self.levels.get(index).map_or(0, |level| level.next_number);
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
            return self.format.write_short(
                room,
                &NewShort {
                    dcid: &dcid,
                    spin: false,
                    key_phase: phase,
                    number: NewNumber { pn: number, unacked, announced },
                    fixed_bit,
                },
            );
        }
        let unacked = match Self::level_index(space) {
            Some(index) => {
                unacked_numbers(number, self.levels.get(index).and_then(|level| level.largest_acked))
            }
            None => self.paths.numbering.unacked(path, number),
        };
        let token: &[u8] =
            if kind == PacketKind::Initial && self.side.is_client() { &self.handshake.token } else { &[] };
        self.format.write_long(
            room,
            &NewLong {
                kind,
                dcid: &dcid,
                scid: &self.origin.local_cid,
                token,
                number: NewNumber { pn: number, unacked, announced },
                fixed_bit,
            },
        )
    }

    /// Returns the fixed bit. It is random if the peer announced that it ignores this bit (RFC 9287 §3).
    fn fixed_bit(&self, number: u64) -> bool {
        let peer = self.handshake.peer_parameters.as_ref();
        let grease = self.config.grease
            && self.handshake.progress.complete
            && peer.is_some_and(|peer| peer.grease_quic_bit);
        !grease || self.origin.grease_bits >> (number % 64) & 1 == 1
    }

    /// Pads, protects and records a drafted packet. `datagram` is the whole datagram. `end` is the offset at
    /// which the packet must end, at least `draft.end`.
    pub(in crate::connection) fn seal(
        &mut self,
        now: Time,
        path: PathId,
        datagram: &mut [u8],
        draft: Draft,
        end: usize,
        ect: bool,
    ) -> Result<(), TransportError> {
        let (start, outgoing) = (draft.start, draft.outgoing);
        self.encrypt(now, path, datagram, draft, end, ect)?;
        let packet = &mut datagram[start..end];
        let Some(keys) = self.keys.seal(outgoing.kind) else { return Ok(()) };
        if let Some(sample) = self.format.sample(packet, outgoing.kind, outgoing.pn_offset) {
            self.format.mask(packet, &outgoing, &keys.header.mask(&sample));
        }
        Ok(())
    }

    /// Pads, encrypts and records a drafted packet like [`Self::seal`], but does not mask its header.
    pub(super) fn encrypt(
        &mut self,
        now: Time,
        path: PathId,
        datagram: &mut [u8],
        mut draft: Draft,
        end: usize,
        ect: bool,
    ) -> Result<(), TransportError> {
        if draft.kind == PacketKind::OneRtt {
            self.keys.on_sealing()?;
        }
        let padded = end > draft.end;
        datagram[draft.end - TAG_LEN..end - TAG_LEN].fill(0);
        draft.end = end;
        let packet = &mut datagram[draft.start..end];
        self.format.set_length(packet, &draft.outgoing);
        if self.output.observer.is_some() {
            self.trace_sent(now, path, packet, &draft);
        }
        let nonce_path = match draft.kind {
            PacketKind::OneRtt => self.paths.numbering.nonce_path(path),
            _ => PathId::ZERO,
        };
        let keys = self.keys.seal(draft.kind);
        let keys = keys.ok_or_else(|| TransportError::new(TransportErrorCode::INTERNAL_ERROR, "no key"))?;
        keys.packet.seal(nonce_path, draft.numbered.number, draft.outgoing.header_len, packet);
        let size = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        self.account(now, path, draft, size, padded, ect);
        Ok(())
    }

    fn account(&mut self, now: Time, id: PathId, draft: Draft, size: u16, padded: bool, ect: bool) {
        match Self::level_index(draft.space) {
            Some(index) => {
                let level = self.levels.get_mut(index);
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
        let active = self.paths.list.get(path).map(|path| path.remote_cids.active());
        let dcid = draft.dcid.or(active).unwrap_or(ConnectionId::EMPTY);
        let trace = PacketTrace {
            kind: draft.kind,
            version: self.format.version,
            path,
            number: draft.numbered.number,
            dcid,
            scid: if long { self.origin.local_cid } else { ConnectionId::EMPTY },
            key_phase: !long && self.keys.one_rtt.as_ref().is_some_and(|keys| keys.phase),
            size: packet.len(),
            payload,
            direction: self.format.direction,
        };
        self.trace(now, &TraceEvent::PacketSent(trace));
    }
}

#[cfg(test)]
pub(crate) mod forge;
