//! Checks that the header's stream description agrees with the packet's STREAM frame (`docs/vreverso.md`).

use anabranch_wire::{Direction, Frame, Frames, Placement, Stream};

use crate::error::TransportError;
use crate::error::violation;

/// Type of STREAM frames, without flags.
pub(in crate::connection) const STREAM: u64 = 0x08;

/// Checks that the payload agrees with its header: either the header names the packet's only STREAM frame,
/// which precedes all other frames, or the header names none and the packet contains none.
pub(in crate::connection) fn check_named(
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
pub(in crate::connection) struct Leading<'a> {
    pub(in crate::connection) stream: Stream<'a>,
    /// Offset in the payload at which the frame ends and other frames begin.
    pub(in crate::connection) end: usize,
    /// `true` if the frame precedes all other frames in the packet.
    leads: bool,
}

impl Leading<'_> {
    /// Checks that the header names this frame.
    pub(in crate::connection) fn check(&self, named: &Placement) -> Result<(), TransportError> {
        let is_true = self.leads && named.matches(self.stream.id, self.stream.offset);
        if is_true { Ok(()) } else { Err(untrue()) }
    }
}

/// Returns the STREAM frame that a reader reaches first. No frame is processed. A frame that cannot be parsed
/// is an error nevertheless.
#[inline(always)]
pub(in crate::connection) fn leading_stream(
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
