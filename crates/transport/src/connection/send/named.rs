//! Packets whose headers name the stream and the offset of their data (VReverso). They contain one STREAM
//! frame, which precedes all other frames.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Time, Writer};

use super::draft::Draft;
use super::draft::Fill;
use super::draft::Target;
use crate::connection::connection::Connection;
use crate::stream::{MIN_NAMED_ROOM, Named};
use crate::token::Tokens;

/// Maximum length of a long header and the tag, in bytes.
const MAX_OVERHEAD: usize = 1 + 4 + 2 * 21 + 2 + 12 + TAG_LEN;

impl Connection {
    /// Drafts a 0-RTT or 1-RTT packet like [`Connection::draft`]. The header names the packet's stream data.
    pub(in crate::connection) fn draft_named(
        &mut self,
        now: Time,
        target: Target,
        fill: Fill,
        room: &mut [u8],
        start: usize,
    ) -> Option<Draft> {
        let named =
            self.next_named(now, &target, fill).filter(|_| room.len() >= MAX_OVERHEAD + MIN_NAMED_ROOM);
        let target = Target { announced: named.as_ref().map(|named| named.announced), ..target };
        self.draft(target, room, start, |this, writer, tokens| match &named {
            Some(named) => this.fill_named(now, &target, fill, named, writer, tokens),
            None => this.fill_unnamed(now, &target, fill, writer, tokens),
        })
    }

    /// Returns the STREAM frame for the next packet; `None` if it carries no stream data.
    fn next_named(&mut self, now: Time, target: &Target, fill: Fill) -> Option<Named> {
        if !fill.data {
            return None;
        }
        let carrier = self.carrier(target.path, fill.streams);
        if fill.streams.new && self.datagrams.has_pending() {
            let room = self.datagram_room();
            self.datagrams.set_packet_room(room);
            if self.datagrams.take_turn(now, &carrier, self.streams.has_pending_data()) {
                return None;
            }
        }
        let next = if fill.streams.any() { self.streams.next_named(&carrier) } else { None };
        next.or_else(|| self.next_named_copy(&carrier))
    }

    /// Writes the frames of a packet with stream data. The STREAM frame is moved to the front of the packet,
    /// so that a receiver, which reads backward, reaches it last.
    fn fill_named(
        &mut self,
        now: Time,
        target: &Target,
        fill: Fill,
        named: &Named,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        if !named.is_repeated {
            writer.set_aside(MIN_NAMED_ROOM);
            self.fill_frames(now, target.path, target.kind, fill, writer, tokens);
            writer.set_aside(0);
        }
        let before = writer.len();
        if let Some(left) = self.streams.write_named(named, writer, tokens) {
            self.paths.copy_left(target.path, left);
        }
        self.fill_ping(target.path, fill, writer, tokens);
        writer.lead(before);
    }

    /// Writes the frames of a packet without stream data.
    fn fill_unnamed(
        &mut self,
        now: Time,
        target: &Target,
        fill: Fill,
        writer: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) {
        self.fill_frames(now, target.path, target.kind, fill, writer, tokens);
        if fill.data {
            let carrier = self.carrier(target.path, fill.streams);
            if fill.streams.any() {
                self.fill_datagrams(now, &carrier, writer, tokens);
            }
            self.fill_copies(&carrier, writer, tokens);
        }
        self.fill_ping(target.path, fill, writer, tokens);
    }
}
