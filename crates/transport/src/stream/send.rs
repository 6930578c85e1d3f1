//! The sending half of a stream (RFC 9000 §3.1).

use std::ops::Range;

use anabranch_wire::VarInt;

use super::ready::Rank;
use super::send_buffer::SendBuffer;
use super::state::{SendInput, SendState};
use super::types::Priority;
use crate::flow::SendCredit;
use crate::schedule::{Kinds, Route};

/// State of the stream's end (FIN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    /// The application may write more.
    #[default]
    Open,
    /// The FIN must be sent, for the first time or again.
    Pending,
    /// The FIN is in flight.
    Sent,
    /// The FIN is acknowledged.
    Acked,
}

/// Next part of the stream to write: bytes, the end, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) range: Range<u64>,
    /// `true` if the stream ends at `range.end`.
    pub(crate) fin: bool,
}

/// Sending half of a stream.
#[derive(Debug, Default)]
pub(crate) struct SendHalf {
    pub(crate) state: SendState,
    pub(crate) buffer: SendBuffer,
    /// Credit for bytes written, whether or not they have been sent.
    pub(crate) credit: SendCredit,
    fin: Fin,
    pub(crate) priority: Priority,
    /// Paths that may carry the data.
    pub(crate) route: Route,
    /// Place in the queue of streams with data to send.
    pub(crate) place: Option<Rank>,
    /// `true` if the application waits for [`StreamEvent::Writable`](super::StreamEvent::Writable).
    pub(crate) wants_room: bool,
    /// `true` if the stream is in the queue of those that wait for the connection's room.
    pub(crate) in_line: bool,
    /// Place, in order of arrival, among the streams that have little or nothing to send because the
    /// connection has no room for more writes; `None` for other streams.
    pub(crate) hungry: Option<u64>,
    /// Code of the STOP_SENDING that ended the stream.
    pub(crate) stopped: Option<VarInt>,
    /// Code of the RESET_STREAM frame.
    pub(crate) reset_code: VarInt,
}

impl SendHalf {
    /// Creates a half that may send up to offset `limit`.
    pub(crate) fn new(limit: u64) -> Self {
        Self { credit: SendCredit::new(limit), ..Self::default() }
    }

    /// Returns whether the application may write.
    pub(crate) fn is_open(&self) -> bool {
        self.state.may_send() && self.fin == Fin::Open
    }

    /// Applies `input` to the state machine. Returns whether the state changed.
    pub(crate) fn apply(&mut self, input: SendInput) -> bool {
        let next = self.state.on(input);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// Adds `n` bytes, which `append` writes to the buffer. The caller has checked the credit for them.
    pub(crate) fn buffer_written(&mut self, n: u64, append: impl FnOnce(&mut SendBuffer, usize)) {
        if n > 0 {
            append(&mut self.buffer, n as usize);
            self.credit.take(n);
        }
    }

    /// Ends the half: nothing more will be written.
    pub(crate) fn finish(&mut self) {
        self.fin = Fin::Pending;
    }

    /// Returns the next part to send: lost data, then new data, then a FIN without data.
    #[inline]
    pub(crate) fn next(&self) -> Option<Segment> {
        self.next_of(Kinds::ALL)
    }

    /// Returns the next part like [`Self::next`], but only of `kinds`. A FIN without data counts as new.
    #[inline]
    pub(crate) fn next_of(&self, kinds: Kinds) -> Option<Segment> {
        if !self.state.may_send() {
            return None;
        }
        let (end, limit) = (self.buffer.end(), self.credit.limit());
        let next = if kinds.repeated { self.buffer.next(limit) } else { self.buffer.next_new(limit) };
        match next.filter(|range| kinds.new || range.start < self.buffer.unsent()) {
            Some(range) => {
                let fin = self.fin != Fin::Open && range.end == end;
                Some(Segment { range, fin })
            }
            None if kinds.new && self.fin == Fin::Pending && self.buffer.unsent() == end => {
                Some(Segment { range: end..end, fin: true })
            }
            None => None,
        }
    }

    /// Returns the number of new bytes that the peer's limit for the stream allows to be sent.
    #[inline]
    pub(crate) fn unsent_below_limit(&self) -> u64 {
        self.buffer.end().min(self.credit.limit()).saturating_sub(self.buffer.unsent())
    }

    /// Marks `segment` as sent. Returns the number of its bytes that were sent for the first time.
    #[inline]
    pub(crate) fn on_sent(&mut self, segment: &Segment) -> u64 {
        let before = self.buffer.unsent();
        self.buffer.mark_sent(segment.range.clone());
        if segment.fin {
            self.apply(SendInput::Fin);
            if self.fin == Fin::Pending {
                self.fin = Fin::Sent;
            }
        } else {
            self.apply(SendInput::Frame);
        }
        self.buffer.unsent() - before
    }

    /// Marks `range` (and the end, if `fin`) as acknowledged. Returns the number of bytes that left the
    /// buffer.
    pub(crate) fn on_acked(&mut self, range: Range<u64>, fin: bool) -> u64 {
        let released = self.buffer.ack(range);
        if fin && self.fin != Fin::Open {
            self.fin = Fin::Acked;
        }
        if self.fin == Fin::Acked && self.buffer.is_all_acked() {
            self.apply(SendInput::AllAcked);
        }
        released
    }

    /// Queues `range` (and the end, if `fin`) to be sent again, unless the peer has acknowledged it
    /// meanwhile.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        self.buffer.lose(range);
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Pending;
        }
    }

    /// Discards the data. Returns the number of bytes that left the buffer, and the number of those that had
    /// never been sent; `None` if the half cannot be reset.
    pub(crate) fn reset(&mut self, code: VarInt) -> Option<(u64, u64)> {
        if !self.apply(SendInput::Reset) {
            return None;
        }
        self.reset_code = code;
        self.wants_room = false;
        let unsent = self.buffer.end() - self.buffer.unsent();
        // The final size counts the bytes that were sent. Unsent bytes do not count (RFC 9000 §4.5).
        Some((self.buffer.discard(), unsent))
    }

    /// Returns the number of bytes sent, which is the Final Size of RESET_STREAM.
    pub(crate) fn final_size(&self) -> u64 {
        self.buffer.unsent()
    }

    /// Restarts the half after 0-RTT was refused: the peer has received nothing and has given no credit yet.
    /// Returns the number of bytes that had been sent.
    pub(crate) fn restart(&mut self) -> u64 {
        let sent = self.buffer.unsent();
        self.credit.restart();
        if !self.state.may_send() {
            // The peer learns only of the reset, with a final size of 0.
            self.buffer = SendBuffer::default();
            return sent;
        }
        self.state = SendState::Ready;
        if self.fin == Fin::Sent {
            self.fin = Fin::Pending;
        }
        self.buffer.rewind();
        sent - self.buffer.unsent()
    }

    /// Returns whether STREAM_DATA_BLOCKED is due: everything that the peer's limit allows has been sent, and
    /// the application has more data.
    pub(crate) fn is_blocked(&self) -> bool {
        self.state.may_send() && self.credit.should_report() && self.buffer.unsent() >= self.credit.limit()
    }
}
