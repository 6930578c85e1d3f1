//! Writing of a packet's frames in a fixed order: ACK, control, DATAGRAM, STREAM.

use anabranch_wire::{Frame, PacketKind, PathId, SpaceId, Time, Writer};

use super::draft::{Fill, is_eliciting};
use crate::connection::connection::Connection;
use crate::path::Path;
use crate::schedule::Carrier;
use crate::space::AckForm;
use crate::token::{Token, Tokens};

impl Connection {
    /// Writes the frames of an Initial or Handshake packet.
    pub(in crate::connection) fn fill_handshake(
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
            self.levels.get_mut(index).received.write_ack(
                now,
                writer,
                AckForm { space, multipath: false, ack_delay_exponent: 0 },
                tokens,
            );
        }
        if fill.probe && !self.levels.get_mut(index).crypto.has_pending() {
            // The previous probe has carried all data that was to be repeated, so the oldest data is repeated
            // once more. An Initial without CRYPTO is useless to a peer that has received nothing yet, and
            // some peers close the connection because of it.
            self.repeat_oldest(path, space);
        }
        if fill.data {
            self.levels.get_mut(index).crypto.write(space, writer, tokens);
        }
        if fill.probe && !is_eliciting(tokens) {
            write_ping(writer, tokens);
        }
    }

    /// Writes the frames of a 0-RTT or 1-RTT packet in a fixed order.
    pub(in crate::connection) fn fill_data(
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
            // Flows of messages and stream data take turns, so that neither keeps the other from being sent.
            let takes_turns = self.datagrams.has_flows() && self.streams.has_pending_data();
            let is_first = !takes_turns || self.datagrams.take_turn(now, &carrier, true);
            if is_first {
                self.fill_datagrams(now, &carrier, writer, tokens);
            }
            self.streams.write_data(&carrier, writer, tokens);
            if !is_first {
                self.fill_datagrams(now, &carrier, writer, tokens);
            }
        }
        if fill.data && self.paths.multipath.is_some() {
            self.fill_copies(&carrier, writer, tokens);
        }
        self.fill_ping(id, fill, writer, tokens);
    }

    /// Writes all frames that carry no application data.
    pub(in crate::connection) fn fill_frames(
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

    pub(in crate::connection) fn fill_datagrams(
        &mut self,
        now: Time,
        carrier: &Carrier,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if carrier.kinds.new && self.datagrams.has_pending() {
            // The MTU may have decreased since the datagrams were queued. Datagrams that no longer fit must
            // not block the others.
            let room = self.datagram_room();
            self.datagrams.set_packet_room(room);
            self.datagrams.write(now, carrier, writer, tokens);
        }
    }

    /// Writes a PING if the packet must be ack-eliciting and no other frame is ack-eliciting.
    pub(in crate::connection) fn fill_ping(
        &mut self,
        id: PathId,
        fill: Fill,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if (fill.probe || path.ping && fill.data) && !is_eliciting(tokens) {
            write_ping(writer, tokens);
        }
        if is_eliciting(tokens) {
            path.ping = false;
        }
    }

    /// Writes the control frames that only 1-RTT packets carry.
    pub(in crate::connection) fn fill_control(
        &mut self,
        now: Time,
        id: PathId,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if self.pending.handshake_done && writer.frame(&Frame::HandshakeDone).is_ok() {
            self.pending.handshake_done = false;
            tokens.push(Token::HandshakeDone);
        }
        if self.handshake.data_crypto.has_pending() {
            self.handshake.data_crypto.write(SpaceId::Data, writer, tokens);
        }
        if self.pending.new_tokens > 0 && self.paths.list.main().address.validated {
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
