//! Checks of headers that name a stream against the STREAM frame in front of the packet (`docs/vreverso.md`).

use anabranch_wire::{Direction, Frame, Frames, Placement, Stream};

use crate::error::TransportError;
use crate::error::violation;

/// Type of STREAM frames, whatever their flags.
pub(in crate::connection) const STREAM: u64 = 0x08;

/// Checks the payload of a packet against its header: the STREAM frame that the header names, in front and
/// alone, or none.
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
    /// Offset in the payload at which the frame ends and the other frames begin.
    pub(in crate::connection) end: usize,
    /// It is in front of all other frames.
    leads: bool,
}

impl Leading<'_> {
    /// Returns whether the frame is what the header names.
    pub(in crate::connection) fn check(&self, named: &Placement) -> Result<(), TransportError> {
        let is_true = self.leads && named.matches(self.stream.id, self.stream.offset);
        if is_true { Ok(()) } else { Err(untrue()) }
    }
}

/// Returns the STREAM frame that is read first. No frame is processed yet; one that cannot be read is an
/// error all the same.
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
