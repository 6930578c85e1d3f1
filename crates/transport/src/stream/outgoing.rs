//! Frames about streams in outgoing packets, and their acknowledgment or loss.

use anabranch_wire::{Dir, Frame, StreamId, Writer, max_stream_len, write_stream};

use super::Streams;
use super::send::Segment;
use super::state::SendInput;
use super::types::StreamEvent;
use crate::schedule::{Carrier, Kinds};
use crate::token::{Token, Tokens};

/// Minimum data of a STREAM frame, in bytes, if more data waits for the next packet. Less is not worth the
/// frame header.
pub(super) const MIN_SEGMENT: u64 = 32;

/// Result of adding a stream to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The stream has nothing more to send.
    Drained,
    /// The packet is full.
    Full {
        /// `true` if the packet contains anything of the stream.
        served: bool,
    },
    /// The connection's limits block the stream.
    Held,
    /// The stream's remaining data is of a kind that is sent on another path.
    Passed,
}

impl Streams {
    /// Returns whether a flow control frame, RESET_STREAM or STOP_SENDING waits to be sent.
    pub fn has_pending_control(&self) -> bool {
        let due = &self.due;
        let connection = due.max_data || due.data_blocked;
        let streams = [due.max_streams, due.streams_blocked].iter().any(|dirs| dirs.bi || dirs.uni);
        connection || streams || !self.control.is_empty()
    }

    /// Returns whether STREAM frames may be sent now: new data, lost data or an end.
    pub(crate) fn has_pending_data(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Writes as many control frames as fit. Each is created now, so it has the newest value.
    pub(crate) fn write_control(&mut self, w: &mut Writer<'_>, tokens: &mut Tokens) {
        if !self.has_pending_control() {
            return;
        }
        // A frame that does not fit remains due.
        let _full = self.write_connection_control(w, tokens);
        while let Some(id) = self.control.front().copied() {
            if !self.write_stream_control(id, w, tokens) {
                return;
            }
            self.control.pop_front();
        }
    }

    /// Writes the connection's control frames. Returns `None` if the packet is full.
    fn write_connection_control(&mut self, w: &mut Writer<'_>, tokens: &mut Tokens) -> Option<()> {
        if self.due.max_data {
            put(w, tokens, &Frame::MaxData(self.flow.receive_credit.grant()), Token::MaxData)?;
            self.pool.set_window(self.flow.receive_credit.window());
            self.due.max_data = false;
        }
        for dir in [Dir::Bi, Dir::Uni] {
            if self.due.max_streams.get(dir) {
                let maximum = self.table.remote(dir).grant();
                put(w, tokens, &Frame::MaxStreams { dir, maximum }, Token::MaxStreams(dir))?;
                self.due.max_streams.set(dir, false);
            }
            if self.due.streams_blocked.get(dir) {
                let maximum = self.table.local(dir).limit;
                put(w, tokens, &Frame::StreamsBlocked { dir, maximum }, Token::StreamsBlocked(dir))?;
                self.table.local(dir).reported = Some(maximum);
                self.due.streams_blocked.set(dir, false);
            }
        }
        if self.due.data_blocked {
            if let Some(limit) = self.flow.send_credit.report() {
                put(w, tokens, &Frame::DataBlocked(limit), Token::DataBlocked)?;
            }
            self.due.data_blocked = false;
        }
        Some(())
    }

    /// Writes the control frames of one stream. Returns whether all of them fit.
    fn write_stream_control(&mut self, id: StreamId, w: &mut Writer<'_>, tokens: &mut Tokens) -> bool {
        let Some(key) = self.table.find(id, self.now) else {
            return true;
        };
        if !self.table.may_send_on(id) {
            // The stream does not exist for the peer yet; see `reject_zero_rtt`.
            self.table.stream(key).control.queued = false;
            self.waiting.parked.push(id);
            return true;
        }
        let stream = self.table.stream(key);
        let control = &mut stream.control;
        if let Some(send) = &mut stream.send {
            if control.reset {
                let frame = Frame::ResetStream { id, code: send.reset_code, final_size: send.final_size() };
                control.reset = put(w, tokens, &frame, Token::ResetStream(id)).is_none();
            }
            if control.blocked
                && let Some(maximum) = send.credit.report()
            {
                let frame = Frame::StreamDataBlocked { id, maximum };
                control.blocked = put(w, tokens, &frame, Token::StreamDataBlocked(id)).is_none();
            }
        }
        if let Some(half) = &mut stream.receive {
            if let Some(code) = half.stopped.filter(|_| control.stop) {
                let frame = Frame::StopSending { id, code };
                control.stop = put(w, tokens, &frame, Token::StopSending(id)).is_none();
            }
            control.max_data &= half.wants_more();
            if control.max_data {
                let frame = Frame::MaxStreamData { id, maximum: half.grant() };
                control.max_data = put(w, tokens, &frame, Token::MaxStreamData(id)).is_none();
            }
        }
        control.queued = control.reset || control.stop || control.max_data || control.blocked;
        !control.queued
    }

    /// Writes STREAM frames by priority until the packet is full. Some packets are reserved for streams that
    /// would otherwise starve. A stream's lost data is sent before its new data. Streams that `carrier` must
    /// not carry are skipped.
    pub(crate) fn write_data(&mut self, carrier: &Carrier, w: &mut Writer<'_>, tokens: &mut Tokens) {
        let mut passed = None;
        let mut spare = self.ready.spare();
        while let Some(place) = spare.or_else(|| self.ready.next(passed)) {
            let is_spare = spare.take().is_some();
            let Some(key) = self.table.find(place.id(), self.now) else {
                self.ready.remove(&place);
                continue;
            };
            if self.is_routed
                && !self.table.stream(key).send.as_ref().is_none_or(|send| carrier.carries(send.route))
            {
                if !is_spare {
                    passed = Some(place);
                }
                continue;
            }
            let progress = self.write_stream(key, carrier.kinds, w, tokens);
            let stream = self.table.stream(key);
            let place_now = match progress {
                Progress::Full { served: false } => return,
                Progress::Full { served: true } => Some(self.ready.rotate(place)),
                Progress::Passed => {
                    passed = Some(place);
                    continue;
                }
                Progress::Drained | Progress::Held => {
                    self.ready.remove(&place);
                    None
                }
            };
            if let Some(send) = &mut stream.send {
                send.place = place_now;
            }
            self.note_hunger(key);
            match progress {
                Progress::Full { .. } | Progress::Passed => return,
                Progress::Held => self.waiting.parked.push(place.id()),
                Progress::Drained => self.note_blocked(key),
            }
        }
    }

    /// Writes STREAM frames of one stream, with data of `kinds`.
    fn write_stream(
        &mut self,
        key: usize,
        kinds: Kinds,
        w: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) -> Progress {
        let may_send = self.table.may_send_on(self.table.id(key));
        let stream = self.table.stream(key);
        let id = stream.id;
        let mut served = false;
        let Some(send) = &mut stream.send else {
            return Progress::Drained;
        };
        while let Some(Segment { range, fin }) = send.next_of(kinds) {
            let is_new = range.start >= send.buffer.unsent();
            let credit =
                if is_new { self.flow.send_credit.limit().saturating_sub(self.flow.sent) } else { u64::MAX };
            let wanted = range.end - range.start;
            if !may_send || (credit == 0 && wanted > 0) {
                return Progress::Held;
            }
            let room = max_stream_len(w.remaining(), id, range.start) as u64;
            if room < wanted.min(MIN_SEGMENT) {
                return Progress::Full { served };
            }
            let len = wanted.min(room).min(credit);
            let segment = Segment { range: range.start..range.start + len, fin: fin && len == wanted };
            let fill = |to: &mut [u8]| send.buffer.copy_to(range.start, to);
            if write_stream(w, id, range.start, segment.fin, len as usize, fill).is_err() {
                return Progress::Full { served };
            }
            tokens.push(Token::Stream { id, offset: range.start, len: len as u32, fin: segment.fin });
            self.flow.sent += send.on_sent(&segment);
            self.flow.pending -= len;
            served = true;
        }
        if kinds != Kinds::ALL && send.next().is_some() { Progress::Passed } else { Progress::Drained }
    }

    /// Handles the acknowledgment of a frame. Tokens of other parts of the connection are ignored.
    pub(crate) fn on_acked(&mut self, token: &Token) {
        match *token {
            Token::Stream { id, offset, len, fin } | Token::StreamCopy { id, offset, len, fin } => {
                self.on_data_acked(id, offset, len, fin);
            }
            Token::ResetStream(id) => {
                let Some(key) = self.table.find(id, self.now) else {
                    return;
                };
                if self.table.stream(key).send.as_mut().is_some_and(|send| send.apply(SendInput::ResetAcked))
                {
                    self.events.push_back(StreamEvent::ResetAcknowledged(id));
                    self.remove_if_done(key);
                }
            }
            _ => {}
        }
    }

    fn on_data_acked(&mut self, id: StreamId, offset: u64, len: u32, fin: bool) {
        let Some(key) = self.table.find(id, self.now) else {
            return;
        };
        let Some(send) = self.table.stream(key).send.as_mut().filter(|send| send.state.may_send()) else {
            return;
        };
        let pending = send.buffer.pending();
        let released = send.on_acked(offset..offset + u64::from(len), fin);
        let is_finished = send.state.is_terminal();
        self.flow.pending -= pending - send.buffer.pending();
        if send.place.is_some() {
            self.requeue(key);
        }
        if is_finished {
            self.events.push_back(StreamEvent::Finished(id));
            self.remove_if_done(key);
        }
        if released > 0 {
            self.flow.buffered -= released;
            self.flow.delivered += released;
            self.wake_line();
        }
    }

    /// Handles the loss of a frame: queues its content again if it is still useful. Tokens of other parts of
    /// the connection are ignored.
    ///
    /// Limits are not repeated; their newest values are sent instead (RFC 9000 §13.3).
    pub(crate) fn on_lost(&mut self, token: &Token) {
        match *token {
            Token::Stream { id, offset, len, fin } => self.on_data_lost(id, offset, len, fin),
            Token::MaxData => self.due.max_data = true,
            Token::MaxStreams(dir) => self.due.max_streams.set(dir, true),
            Token::DataBlocked => self.due.data_blocked |= self.flow.send_credit.report_again(),
            Token::StreamsBlocked(dir) => {
                let local = self.table.local(dir);
                let still = local.wanted && local.reported == Some(local.limit);
                self.due.streams_blocked.set(dir, still);
            }
            Token::ResetStream(id)
            | Token::StopSending(id)
            | Token::MaxStreamData(id)
            | Token::StreamDataBlocked(id) => self.on_stream_control_lost(id, token),
            _ => {}
        }
    }

    fn on_data_lost(&mut self, id: StreamId, offset: u64, len: u32, fin: bool) {
        let Some(key) = self.table.find(id, self.now) else {
            return;
        };
        let Some(send) = self.table.stream(key).send.as_mut().filter(|send| send.state.may_send()) else {
            return;
        };
        let pending = send.buffer.pending();
        send.on_lost(offset..offset + u64::from(len), fin);
        self.flow.pending += send.buffer.pending() - pending;
        self.requeue(key);
    }

    fn on_stream_control_lost(&mut self, id: StreamId, token: &Token) {
        let Some(key) = self.table.find(id, self.now) else {
            return;
        };
        let stream = self.table.stream(key);
        let (send, half, control) = (stream.send.as_ref(), stream.receive.as_ref(), &mut stream.control);
        match token {
            Token::ResetStream(_) => {
                control.reset |= send.is_some_and(|send| !send.state.may_send() && !send.state.is_terminal());
            }
            Token::StreamDataBlocked(_) => {
                control.blocked |=
                    send.is_some_and(|send| send.state.may_send() && send.credit.report_again());
            }
            Token::StopSending(_) => {
                control.stop |= half.is_some_and(|half| half.stopped.is_some() && !half.is_done());
            }
            _ => control.max_data |= half.is_some_and(|half| half.wants_more()),
        }
        self.queue_control(key);
    }
}

/// Writes a control frame and adds its token. Does neither if the frame does not fit.
fn put(w: &mut Writer<'_>, tokens: &mut Tokens, frame: &Frame<'_>, token: Token) -> Option<()> {
    w.frame(frame).ok()?;
    tokens.push(token);
    Some(())
}
