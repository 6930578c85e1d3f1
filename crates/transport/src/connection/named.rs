//! Packets whose headers name the stream and the offset of their data (VReverso): one STREAM frame, in front of all others.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Direction, Frame, Frames, Placement, Stream, Time, Writer};

use super::connection::Connection;
use super::packet::{Draft, Fill, Target};
use crate::error::TransportError;
use crate::error::violation;
use crate::stream::{MIN_NAMED_ROOM, Named};
use crate::token::Tokens;

/// STREAM's type, as far as errors tell.
pub(super) const STREAM: u64 = 0x08;

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
        let carrier = self.carrier(target.path, fill.streams);
        if fill.streams.new && self.datagrams.has_pending() {
            let room = self.datagram_room();
            self.datagrams.set_packet_room(room);
            if self.datagrams.take_turn(&carrier, self.streams.has_pending_data()) {
                return None;
            }
        }
        let next = if fill.streams.any() { self.streams.next_named(&carrier) } else { None };
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
            self.paths.copy_left(target.path, left);
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
            let carrier = self.carrier(target.path, fill.streams);
            if fill.streams.any() {
                self.fill_datagrams(&carrier, writer, tokens);
            }
            self.fill_copies(&carrier, writer, tokens);
        }
        self.fill_ping(target.path, fill, writer, tokens);
    }
}

/// Checks the payload of a packet against its header: the STREAM frame that the header names, in front and alone, or none.
pub(super) fn check_named(
    payload: &[u8],
    direction: Direction,
    named: Option<&Placement>,
) -> Result<(), TransportError> {
    match (leading_stream(payload, direction)?, named) {
        (None, None) => Ok(()),
        (Some(leading), Some(named)) => leading.check(named),
        _ => Err(untrue()),
    }
}

/// A STREAM frame in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leading<'a> {
    pub(super) stream: Stream<'a>,
    /// Where in the payload it ends, and the other frames begin.
    pub(super) end: usize,
    /// It is in front of all other frames.
    leads: bool,
}

impl Leading<'_> {
    /// Whether the frame is what the header names.
    pub(super) fn check(&self, named: &Placement) -> Result<(), TransportError> {
        let is_true = self.leads && named.matches(self.stream.id, self.stream.offset);
        if is_true { Ok(()) } else { Err(untrue()) }
    }
}

/// The STREAM frame that is read first. Nothing is done with any frame yet; one that cannot be read is an error all the same.
#[inline(always)]
pub(super) fn leading_stream(
    payload: &[u8],
    direction: Direction,
) -> Result<Option<Leading<'_>>, TransportError> {
    let mut frames = Frames::new(payload, direction);
    if let Some(stream) = frames.next_stream() {
        return Ok(Some(Leading { stream, end: payload.len(), leads: frames.is_over() }));
    }
    loop {
        let end = frames.remaining();
        match frames.next() {
            Some(frame) => {
                if let Frame::Stream(stream) = frame? {
                    return Ok(Some(Leading { stream, end, leads: frames.is_over() }));
                }
            }
            None => return Ok(None),
        }
    }
}

fn untrue() -> TransportError {
    violation("the header does not name the packet's stream data").in_frame(STREAM)
}
