//! The receiving half of a stream (RFC 9000 §3.2).

use std::time::Duration;

use anabranch_wire::{Time, TransportErrorCode, VarInt};
use bytes::Bytes;

use super::receive_buffer::{MIN_FRAGMENTS, Pool, ReceiveBuffer, TooFragmented};
use super::state::{ReceiveInput, ReceiveState};
use super::types::ReadError;
use crate::error::TransportError;
use crate::flow::ReceiveCredit;

/// Number of bytes of the window for each separate range that a stream may keep, so that a larger window
/// allows more ranges. At least [`MIN_FRAGMENTS`] ranges are allowed. The budget of the [`Pool`] bounds the
/// ranges of all streams together.
const BYTES_PER_FRAGMENT: u64 = 256;

/// Divisor of the window: the application keeps up with the data if fewer bytes than this part of the window
/// are unread.
const UNREAD_SHARE: u64 = 4;

/// Receiving half of a stream.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    pub(crate) state: ReceiveState,
    pub(crate) buffer: ReceiveBuffer,
    pub(crate) credit: ReceiveCredit,
    final_size: Option<u64>,
    reset_code: VarInt,
    /// Code of our STOP_SENDING.
    pub(crate) stopped: Option<VarInt>,
    /// `true` if a Readable event was emitted, and the application has not read until [`ReadError::Blocked`]
    /// since.
    pub(crate) notified: bool,
}

fn error(code: TransportErrorCode, reason: &'static str) -> TransportError {
    TransportError::new(code, reason)
}

/// Returns the error for a peer that used more than its credit.
pub(crate) fn overrun(reason: &'static str) -> TransportError {
    error(TransportErrorCode::FLOW_CONTROL_ERROR, reason)
}

impl ReceiveHalf {
    pub(crate) fn new(credit: ReceiveCredit) -> Self {
        let mut buffer = ReceiveBuffer::default();
        buffer.set_limit(credit.limit());
        Self {
            state: ReceiveState::default(),
            buffer,
            credit,
            final_size: None,
            reset_code: VarInt::ZERO,
            stopped: None,
            notified: false,
        }
    }

    fn apply(&mut self, input: ReceiveInput) -> bool {
        let next = self.state.on(input);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// Returns whether the application has nothing more to learn from this half, and the peer's use of credit
    /// is final.
    pub(crate) fn is_done(&self) -> bool {
        self.state.is_terminal() || (self.stopped.is_some() && self.final_size.is_some())
    }

    /// Counts the peer's use of the stream up to `end`, where the stream also ends if `fin`. Returns the
    /// newly used credit.
    #[inline]
    pub(crate) fn claim(&mut self, end: u64, fin: bool) -> Result<u64, TransportError> {
        // RFC 9000 §4.5
        match self.final_size {
            Some(size) if end > size || (fin && end != size) => {
                return Err(error(TransportErrorCode::FINAL_SIZE_ERROR, "a stream changes its final size"));
            }
            None if fin && end < self.credit.received() => {
                return Err(error(TransportErrorCode::FINAL_SIZE_ERROR, "a stream ends before its data"));
            }
            _ => {}
        }
        self.credit.receive(end).map_err(|_| overrun("stream data beyond the stream's limit"))
    }

    /// Adds `len` bytes of data that [`Self::claim`] has allowed. `put` writes them to the buffer. Returns
    /// whether the application can read anything new.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        offset: u64,
        len: usize,
        fin: bool,
        put: impl FnOnce(&mut ReceiveBuffer) -> Result<bool, TooFragmented>,
    ) -> Result<bool, TransportError> {
        if fin && self.apply(ReceiveInput::Fin) {
            let size = offset + len as u64;
            self.final_size = Some(size);
            self.buffer.set_limit(size);
        }
        if self.stopped.is_some() || !self.state.may_receive() {
            return Ok(false);
        }
        let before = self.buffer.readable();
        let grew = put(&mut self.buffer).map_err(|_| {
            // Dropping the data would break the rule that acknowledged data is kept (RFC 9000 §13.1).
            error(TransportErrorCode::INTERNAL_ERROR, "more holes in a stream than can be kept")
        })?;
        let complete = self.final_size == Some(self.buffer.ready()) && self.apply(ReceiveInput::AllReceived);
        let is_more = self.buffer.is_unordered() && self.buffer.readable() > before;
        Ok(grew || complete || is_more)
    }

    /// Handles a reset by the peer with a final size that [`Self::claim`] has allowed. Returns whether the
    /// application must be notified.
    pub(crate) fn on_reset(&mut self, code: VarInt, final_size: u64, pool: &mut Pool) -> bool {
        self.final_size = Some(final_size);
        if !self.apply(ReceiveInput::Reset) {
            return false;
        }
        self.reset_code = code;
        self.buffer.discard(pool);
        self.stopped.is_none()
    }

    /// Returns `Ok` if data can be read in order; otherwise an error with the reason why nothing can be read.
    #[inline]
    pub(crate) fn readable_in_order(&mut self) -> Result<(), ReadError> {
        if self.buffer.is_unordered() {
            return Err(ReadError::Unordered);
        }
        self.readable()
    }

    /// Returns `Ok` if data can be read; otherwise an error with the reason why nothing can be read.
    #[inline]
    pub(crate) fn readable(&mut self) -> Result<(), ReadError> {
        if self.stopped.is_some() {
            return Err(ReadError::Closed);
        }
        match self.state {
            ReceiveState::ResetRecvd | ReceiveState::ResetRead => {
                self.apply(ReceiveInput::ReadReset);
                Err(ReadError::Reset(self.reset_code))
            }
            _ if self.buffer.readable() > 0 => Ok(()),
            ReceiveState::DataRecvd | ReceiveState::DataRead => {
                self.apply(ReceiveInput::ReadEnd);
                Err(ReadError::Finished)
            }
            ReceiveState::Recv | ReceiveState::SizeKnown => {
                self.notified = false;
                Err(ReadError::Blocked)
            }
        }
    }

    /// Returns whether reading would return data, the end or a reset.
    pub(crate) fn has_news(&self) -> bool {
        let ended = matches!(self.state, ReceiveState::DataRecvd | ReceiveState::ResetRecvd);
        self.stopped.is_none() && (ended || self.buffer.readable() > 0)
    }

    /// Takes at most `max` bytes from the buffer.
    pub(crate) fn take(&mut self, max: usize, pool: &mut Pool) -> Bytes {
        self.buffer.take(max, pool)
    }

    /// Takes at most `max` bytes from the buffer, even if earlier bytes are missing.
    pub(crate) fn take_unordered(&mut self, max: usize, pool: &mut Pool) -> Option<(u64, Bytes)> {
        self.buffer.take_unordered(max, pool)
    }

    /// Counts `n` bytes that have left the buffer. Returns whether a new limit should be sent to the peer.
    #[inline]
    pub(crate) fn on_consumed(&mut self, n: u64, now: Time, rtt: Duration) -> bool {
        self.credit.consume(n, now, rtt) && self.wants_more()
    }

    /// Returns whether data is missing before received data although the application has read nearly all
    /// readable bytes.
    pub(crate) fn is_held_up(&self) -> bool {
        let unread = self.buffer.readable();
        self.wants_more()
            && self.credit.received() > self.buffer.ready()
            && unread < self.credit.window() / UNREAD_SHARE
    }

    /// Returns the offset of the next data in order, if no received data lies beyond it and the final size is
    /// unknown.
    pub(crate) fn next_in_order(&self) -> Option<u64> {
        let next = self.buffer.ready();
        (self.wants_more() && self.credit.received() == next).then_some(next)
    }

    /// Returns whether the peer could use a higher limit.
    pub(crate) fn wants_more(&self) -> bool {
        self.state == ReceiveState::Recv && self.stopped.is_none()
    }

    /// Returns the limit to send to the peer now.
    pub(crate) fn grant(&mut self) -> u64 {
        let limit = self.credit.grant();
        self.buffer.set_limit(limit);
        self.buffer
            .set_max_fragments(MIN_FRAGMENTS.max((self.credit.window() / BYTES_PER_FRAGMENT) as usize));
        limit
    }

    /// Stops the stream for the application. Returns whether STOP_SENDING should be sent.
    pub(crate) fn stop(&mut self, code: VarInt, pool: &mut Pool) -> bool {
        self.stopped = Some(code);
        self.buffer.discard(pool);
        self.state.may_receive()
    }
}
