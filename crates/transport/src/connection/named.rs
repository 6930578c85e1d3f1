//! Packets whose headers name the stream and the offset of their data (VReverso): one STREAM frame, in front of all others.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Frame, Frames, Placement, Time, Writer};

use super::connection::Connection;
use super::packet::{Draft, Fill, Target};
use super::receive::violation;
use crate::error::TransportError;
use crate::stream::{MIN_NAMED_ROOM, Named};
use crate::token::Tokens;

/// The longest long header and tag, besides the STREAM frame.
const MAX_OVERHEAD: usize = 1 + 4 + 2 * 21 + 2 + 12 + TAG_LEN;

impl Connection {
    /// Like [`Connection::draft`] for a 0-RTT or 1-RTT packet.
    pub(super) fn draft_named(
        &mut self,
        now: Time,
        target: Target,
        fill: Fill,
        room: &mut [u8],
        start: usize,
    ) -> Option<Draft> {
        let named = self.next_named(&target, fill).filter(|_| room.len() >= MAX_OVERHEAD + MIN_NAMED_ROOM);
        let target = Target { announced: named.as_ref().map(|named| named.announced), ..target };
        self.draft(target, room, start, |this, writer, tokens| match &named {
            Some(named) => this.fill_named(now, &target, fill, named, writer, tokens),
            None => this.fill_unnamed(now, &target, fill, writer, tokens),
        })
    }

    /// The STREAM frame of the packet to come, if it is to have one.
    fn next_named(&mut self, target: &Target, fill: Fill) -> Option<Named> {
        if !fill.data {
            return None;
        }
        let carrier = self.carrier(target.path);
        if fill.streams && self.datagrams.has_pending() {
            let room = self.datagram_room();
            self.datagrams.set_packet_room(room);
            if self.datagrams.take_turn(&carrier, self.streams.has_pending_data()) {
                return None;
            }
        }
        let next = if fill.streams { self.streams.next_named(&carrier) } else { None };
        next.or_else(|| self.next_named_copy(&carrier))
    }

    /// The STREAM frame first, as a reader from the end comes by it last.
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
            self.copy_left(target.path, left);
        }
        self.fill_ping(target.path, fill, writer, tokens);
        writer.lead(before);
    }

    /// A packet without stream data.
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
            let carrier = self.carrier(target.path);
            if fill.streams {
                self.fill_datagrams(&carrier, writer, tokens);
            }
            self.fill_control_copies(&carrier, writer, tokens);
        }
        self.fill_ping(target.path, fill, writer, tokens);
    }
}

/// Checks the payload of a packet against its header: the STREAM frame that the header names, in front and alone, or none.
pub(super) fn check_named(frames: Frames<'_>, named: Option<Placement>) -> Result<(), TransportError> {
    let mut frames = frames;
    let mut found = None;
    for frame in frames.by_ref() {
        match frame {
            Ok(Frame::Stream(stream)) => {
                found = Some(stream);
                break;
            }
            Ok(_) => {}
            // What cannot be read is told of when the frames are processed.
            Err(_) => return Ok(()),
        }
    }
    let matches = match (found, named) {
        (None, None) => true,
        (Some(stream), Some(named)) => named.matches(stream.id, stream.offset) && frames.is_over(),
        _ => false,
    };
    if matches { Ok(()) } else { Err(violation("the header does not name the packet's stream data")) }
}
