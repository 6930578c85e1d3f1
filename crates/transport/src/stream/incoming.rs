//! Handling of received frames that concern streams.

use std::time::Duration;

use anabranch_wire::{Dir, Stream, StreamId, Time, VarInt};

use super::Streams;
use super::receive::overrun;
use super::receive_buffer::{Pool, ReceiveBuffer, TooFragmented};
use super::table::Found;
use super::types::StreamEvent;
use crate::error::TransportError;
use crate::flow::ReceiveCredit;

/// Range of a stream in a STREAM frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) fin: bool,
}

impl Streams {
    /// Handles a STREAM frame (RFC 9000 §19.8). `now` and the path's `rtt` are used to size windows.
    pub(crate) fn on_stream(
        &mut self,
        now: Time,
        rtt: Duration,
        frame: &Stream<'_>,
    ) -> Result<(), TransportError> {
        self.now = now;
        let Some(key) = self.receiving(frame.id)? else {
            return Ok(());
        };
        self.copy_in(now, rtt, key, frame)
    }

    /// Adds `len` bytes to a stream. `put` writes them to its buffer.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        now: Time,
        rtt: Duration,
        key: usize,
        Piece { offset, len, fin }: Piece,
        put: impl FnOnce(&mut ReceiveBuffer, &mut Pool) -> Result<bool, TooFragmented>,
    ) -> Result<(), TransportError> {
        self.now = now;
        self.rtt = rtt;
        self.arrived = Some(key);
        let stream = self.table.stream(key);
        let Some(half) = &mut stream.receive else {
            return Ok(());
        };
        let new = half.claim(offset.saturating_add(len as u64), fin)?;
        claim(&mut self.flow.receive_credit, &mut self.due.max_data, new)?;
        let pool = &mut self.pool;
        let news = half.on_data(offset, len, fin, |buffer| put(buffer, pool))?;
        if half.stopped.is_some() {
            self.drop_unread(key);
            self.remove_if_done(key);
            return Ok(());
        }
        if news && !std::mem::replace(&mut half.notified, true) {
            self.events.push_back(StreamEvent::Readable(stream.id));
        }
        if self.named {
            half.buffer.prepare_next(&mut self.pool);
        }
        let is_held_up = half.is_held_up();
        if self.flow.receive_credit.multiply_by_received(rtt) {
            self.due.max_data = true;
        }
        if is_held_up {
            self.widen_windows(key);
        }
        Ok(())
    }

    /// Widens the windows so that late data does not block the peer. While data of a slower path is late, the
    /// windows must hold everything that the faster paths deliver in that time. The maxima of the windows
    /// bound the growth.
    fn widen_windows(&mut self, key: usize) {
        let stream = self.table.stream(key);
        let Some(half) = &mut stream.receive else { return };
        if half.credit.is_tight() && half.credit.widen() {
            stream.control.max_data = true;
            self.queue_control(key);
        }
        if self.flow.receive_credit.is_tight() && self.flow.receive_credit.widen() {
            self.due.max_data = true;
        }
    }

    /// Handles a RESET_STREAM frame (RFC 9000 §19.4). Unread data is dropped.
    pub(crate) fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: VarInt,
        final_size: u64,
    ) -> Result<(), TransportError> {
        let Some(key) = self.receiving(id)? else {
            return Ok(());
        };
        self.claim(key, final_size, true)?;
        let Some(half) = &mut self.table.stream(key).receive else {
            return Ok(());
        };
        let news = half.on_reset(code, final_size, &mut self.pool);
        // A reset that arrives after all the data is ignored, and the data can still be read.
        let is_ignored = half.buffer.readable() > 0;
        if news {
            // The application is notified even if it has not read data that was reported before, perhaps
            // because it waits for something else.
            half.notified = true;
            self.events.push_back(StreamEvent::Readable(id));
        }
        if !is_ignored {
            self.drop_unread(key);
        }
        self.remove_if_done(key);
        Ok(())
    }

    /// Counts the peer's use of the stream up to `end` against the flow control of the stream and of the
    /// connection.
    fn claim(&mut self, key: usize, end: u64, fin: bool) -> Result<(), TransportError> {
        let Some(half) = &mut self.table.stream(key).receive else {
            return Ok(());
        };
        claim(&mut self.flow.receive_credit, &mut self.due.max_data, half.claim(end, fin)?)
    }

    /// Handles a STOP_SENDING frame (RFC 9000 §19.5). The stream is reset with the same code unless all its
    /// data is acknowledged.
    pub(crate) fn on_stop_sending(&mut self, id: StreamId, code: VarInt) -> Result<(), TransportError> {
        let Some(key) = self.sending(id)? else {
            return Ok(());
        };
        if self.reset_half(key, code) {
            if let Some(send) = &mut self.table.stream(key).send {
                send.stopped = Some(code);
            }
            self.events.push_back(StreamEvent::Stopped(id, code));
        }
        Ok(())
    }

    /// Handles a MAX_DATA frame (RFC 9000 §19.9).
    pub(crate) fn on_max_data(&mut self, maximum: u64) {
        if self.flow.send_credit.raise(maximum) {
            self.due.data_blocked = false;
            self.unpark();
            self.wake_line();
        }
    }

    /// Handles a MAX_STREAM_DATA frame (RFC 9000 §19.10).
    pub(crate) fn on_max_stream_data(&mut self, id: StreamId, maximum: u64) -> Result<(), TransportError> {
        if let Some(key) = self.sending(id)? {
            self.raise_stream_limit(key, maximum);
        }
        Ok(())
    }

    pub(super) fn raise_stream_limit(&mut self, key: usize, maximum: u64) {
        let stream = self.table.stream(key);
        if stream.send.as_mut().is_some_and(|send| send.credit.raise(maximum)) {
            stream.control.blocked = false;
            self.requeue(key);
            self.wake(key);
        }
    }

    /// Handles a MAX_STREAMS frame (RFC 9000 §19.11).
    pub(crate) fn on_max_streams(&mut self, dir: Dir, maximum: u64) {
        let local = self.table.local(dir);
        if maximum > local.limit {
            local.limit = maximum.min(anabranch_wire::MAX_STREAM_COUNT);
            self.on_more_streams(dir);
            self.unpark();
        }
    }

    /// Queues streams again that the connection's limits had held back.
    fn unpark(&mut self) {
        for id in std::mem::take(&mut self.waiting.parked) {
            if let Some(key) = self.table.find(id, self.now) {
                self.requeue(key);
                self.queue_control(key);
            }
        }
    }

    /// Handles a DATA_BLOCKED frame (RFC 9000 §19.12): grants the available credit without waiting until half
    /// a window is available.
    pub(crate) fn on_data_blocked(&mut self) {
        self.due.max_data |= self.flow.receive_credit.can_grant();
    }

    /// Handles a STREAM_DATA_BLOCKED frame (RFC 9000 §19.13), like [`Self::on_data_blocked`].
    pub(crate) fn on_stream_data_blocked(&mut self, id: StreamId) -> Result<(), TransportError> {
        if let Some(key) = self.receiving(id)? {
            let stream = self.table.stream(key);
            if stream.receive.as_ref().is_some_and(|half| half.wants_more() && half.credit.can_grant()) {
                stream.control.max_data = true;
                self.queue_control(key);
            }
        }
        Ok(())
    }

    /// Handles a STREAMS_BLOCKED frame (RFC 9000 §19.14), like [`Self::on_data_blocked`].
    pub(crate) fn on_streams_blocked(&mut self, dir: Dir) {
        if self.table.remote(dir).can_grant() {
            self.due.max_streams.set(dir, true);
        }
    }

    #[inline]
    fn receiving(&mut self, id: StreamId) -> Result<Option<usize>, TransportError> {
        let events = &mut self.events;
        let found = self.table.receiving(id, self.now, |dir| events.push_back(StreamEvent::Opened(dir)))?;
        Ok(found.key())
    }

    fn sending(&mut self, id: StreamId) -> Result<Option<usize>, TransportError> {
        let events = &mut self.events;
        let found = self.table.sending(id, self.now, |dir| events.push_back(StreamEvent::Opened(dir)))?;
        Ok(found.key())
    }
}

impl Found {
    fn key(self) -> Option<usize> {
        match self {
            Self::Open(key) => Some(key),
            Self::Over => None,
        }
    }
}

/// Counts `new` further bytes against the connection's flow control. Sets `due` if a new limit should be
/// sent.
#[inline]
pub(super) fn claim(credit: &mut ReceiveCredit, due: &mut bool, new: u64) -> Result<(), TransportError> {
    let total = credit.received().saturating_add(new);
    credit.receive(total).map_err(|_| overrun("stream data beyond the connection's limit"))?;
    *due |= credit.is_starved();
    Ok(())
}
