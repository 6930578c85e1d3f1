//! Stream operations of the application.

use anabranch_wire::{Dir, StreamId, VarInt};
use bytes::Bytes;

use super::Streams;
use super::receive::ReceiveHalf;
use super::send::SendHalf;
use super::send_buffer::SendBuffer;
use super::types::{ClosedStream, Priority, ReadError, SendProgress, StreamEvent, WriteError};
use crate::schedule::Route;

impl Streams {
    /// Opens a stream. Returns `None` if the peer's limit does not allow another one now.
    /// [`StreamEvent::Available`] then reports when it does.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.table.open(dir, self.now);
        let local = self.table.local(dir);
        if id.is_none() && local.reported != Some(local.limit) {
            self.due.streams_blocked.set(dir, true);
        }
        id
    }

    /// Returns the next stream that the peer has opened and the application has not seen, in the order of
    /// stream IDs.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.table.accept(dir)
    }

    /// Copies as much of `data` as there is room for. Fails with [`WriteError::Blocked`] if not even one byte
    /// fits. If not all of `data` was copied, [`StreamEvent::Writable`] reports when more can be written.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.write_with(id, data.len(), |buffer, n| buffer.write(&data[..n]))
    }

    /// Writes like [`Self::write`], but keeps a reference to `data` instead of copying it. The accepted bytes
    /// are split off from `data`.
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.write_with(id, data.len(), |buffer, n| buffer.write_bytes(data.split_to(n)))
    }

    fn write_with(
        &mut self,
        id: StreamId,
        len: usize,
        append: impl FnOnce(&mut SendBuffer, usize),
    ) -> Result<usize, WriteError> {
        let key = self.table.find(id, self.now).ok_or(WriteError::Closed)?;
        let send = self.table.stream(key).send.as_mut().ok_or(WriteError::Closed)?;
        if let Some(code) = send.stopped {
            return Err(WriteError::Stopped(code));
        }
        if !send.is_open() {
            return Err(WriteError::Closed);
        }
        let allowed = send.credit.available().min(len as u64);
        let n = self.room_for(key).min(allowed);
        if let Some(send) = &mut self.table.stream(key).send {
            send.buffer_written(n, append);
        }
        if n > 0 {
            self.set_hungry(key, false);
        }
        self.flow.send_credit.take(n);
        self.flow.buffered += n;
        self.flow.pending += n;
        if n < len as u64 {
            self.want_room(key);
        }
        if n == 0 && len > 0 {
            return Err(WriteError::Blocked);
        }
        self.requeue(key);
        Ok(n as usize)
    }

    /// Records that the application wants to write more. The application is notified when it can, and the
    /// peer is informed if one of its limits blocks the stream.
    fn want_room(&mut self, key: usize) {
        let stream = self.table.stream(key);
        let Some(send) = &mut stream.send else {
            return;
        };
        send.wants_room = true;
        if send.credit.available() == 0 {
            send.credit.want_more();
        } else if !std::mem::replace(&mut send.in_line, true) {
            self.waiting.queue.push(stream.id);
        }
        self.note_hunger(key);
        if self.flow.send_credit.available() == 0 {
            self.flow.send_credit.want_more();
        }
        self.note_blocked(key);
        if self.flow.buffered == 0 {
            // Nothing is in flight, so no acknowledgment will wake the writers. If any room exists, they may
            // use it now.
            self.wake_line();
        }
    }

    /// Finishes the stream: nothing more can be written, and its end is sent to the peer (FIN).
    pub fn finish(&mut self, id: StreamId) -> Result<(), ClosedStream> {
        let key = self.table.find(id, self.now).ok_or(ClosedStream)?;
        let send = self.table.stream(key).send.as_mut().filter(|send| send.is_open()).ok_or(ClosedStream)?;
        send.finish();
        self.set_hungry(key, false);
        self.requeue(key);
        Ok(())
    }

    /// Resets the stream with `code` (RESET_STREAM). Data that is not acknowledged is discarded.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let key = self.table.find(id, self.now).ok_or(ClosedStream)?;
        if self.reset_half(key, code) { Ok(()) } else { Err(ClosedStream) }
    }

    /// Resets the sending half. Returns whether it was open.
    pub(super) fn reset_half(&mut self, key: usize, code: VarInt) -> bool {
        let stream = self.table.stream(key);
        let Some(send) = &mut stream.send else {
            return false;
        };
        let pending = send.buffer.pending();
        let Some((released, unsent)) = send.reset(code) else {
            return false;
        };
        stream.control.reset = true;
        stream.control.blocked = false;
        self.set_hungry(key, false);
        self.flow.pending -= pending;
        self.flow.buffered -= released;
        self.flow.send_credit.give_back(unsent);
        self.queue_control(key);
        self.requeue(key);
        self.wake_line();
        true
    }

    /// Sets the stream's priority among streams with data to send. The peer is not informed.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        let Some(key) = self.table.find(id, self.now) else {
            return;
        };
        self.set_hungry(key, false);
        if let Some(send) = &mut self.table.stream(key).send {
            send.priority = priority;
            if let Some(place) = send.place.take() {
                self.ready.remove(&place);
            }
            self.requeue(key);
        }
        self.note_hunger(key);
    }

    /// Sets the paths that may carry the stream's data. Does nothing if the stream is closed or receive-only.
    pub fn set_route(&mut self, id: StreamId, route: Route) {
        if let Some(send) = self.send_half(id) {
            send.route = route;
            self.is_routed |= route != Route::Any;
        }
    }

    /// Returns the stream's priority; `None` if it is closed or receive-only.
    pub fn priority(&mut self, id: StreamId) -> Option<Priority> {
        self.send_half(id).map(|send| send.priority)
    }

    /// Returns the next readable bytes, at least one. They may be only a part of all readable bytes, because
    /// they are borrowed from one chunk of the receive buffer. They stay readable until [`Self::consume`] or
    /// [`Self::take`].
    ///
    /// They are borrowed from the connection, so no packet can be handled while they are borrowed:
    ///
    /// ```
    /// # use anabranch_transport::{Connection, Datagram};
    /// # use anabranch_wire::{StreamId, Time};
    /// fn read(connection: &mut Connection, now: Time, batch: &mut [Datagram<'_>], id: StreamId) -> usize {
    ///     connection.handle_batch(now, batch);
    ///     connection.streams().peek(id).map_or(0, |lent| lent.len())
    /// }
    /// ```
    ///
    /// With both lines in the other order, the function does not compile:
    ///
    /// ```compile_fail,E0499
    /// # use anabranch_transport::{Connection, Datagram};
    /// # use anabranch_wire::{StreamId, Time};
    /// fn read(connection: &mut Connection, now: Time, batch: &mut [Datagram<'_>], id: StreamId) -> usize {
    ///     let lent = connection.streams().peek(id);
    ///     connection.handle_batch(now, batch);
    ///     lent.map_or(0, |lent| lent.len())
    /// }
    /// ```
    pub fn peek(&mut self, id: StreamId) -> Result<&[u8], ReadError> {
        let key = self.readable(id, ReceiveHalf::readable_in_order)?;
        Ok(self.table.stream(key).receive.as_ref().map(|half| half.buffer.peek()).unwrap_or_default())
    }

    /// Marks the next `n` readable bytes as read. If fewer are readable, all of them are marked.
    pub fn consume(&mut self, id: StreamId, n: usize) -> Result<(), ClosedStream> {
        let key = self.table.find(id, self.now).ok_or(ClosedStream)?;
        let half = self.table.stream(key).receive.as_mut().ok_or(ClosedStream)?;
        if half.stopped.is_some() || half.buffer.is_unordered() {
            return Err(ClosedStream);
        }
        let n = half.buffer.readable().min(n as u64);
        half.buffer.consume(n as usize, &mut self.pool);
        self.on_read(key, n);
        Ok(())
    }

    /// Takes up to `max` readable bytes: at least one, unless `max` is 0.
    ///
    /// The bytes are not copied. As long as any of them is held, memory of the connection is held as well, up
    /// to 64 KiB for a single byte. It counts against the connection's [budget](super::MAX_RECEIVE_SLACK).
    /// Once 256 KiB are held, further bytes are copied.
    pub fn take(&mut self, id: StreamId, max: usize) -> Result<Bytes, ReadError> {
        let key = self.readable(id, ReceiveHalf::readable_in_order)?;
        let half = self.table.stream(key).receive.as_mut();
        let data = half.map(|half| half.take(max, &mut self.pool)).unwrap_or_default();
        self.on_read(key, data.len() as u64);
        Ok(data)
    }

    /// Takes at least one and up to `max` bytes, and returns them with the offset of the first one. Earlier
    /// bytes may still be missing. No byte is taken twice, and bytes with lower offsets are taken first. The
    /// peer receives credit for each byte that is taken. Bytes at the beginning of a chunk of memory are not
    /// copied, as with [`Self::take`].
    ///
    /// From the first call on, the stream can only be read in this way: [`Self::peek`] and [`Self::take`]
    /// fail with [`ReadError::Unordered`], and [`Self::consume`] fails.
    pub fn take_unordered(&mut self, id: StreamId, max: usize) -> Result<(u64, Bytes), ReadError> {
        // Bytes behind a gap are readable once the stream is read in this way.
        let key = self.table.find(id, self.now).ok_or(ReadError::Closed)?;
        let half = self.table.stream(key).receive.as_mut().ok_or(ReadError::Closed)?;
        let may_take = half.stopped.is_none() && !half.state.is_reset();
        let taken = may_take.then(|| half.take_unordered(max.max(1), &mut self.pool)).flatten();
        let Some((offset, data)) = taken else {
            // Nothing can be read now, or the stream has ended.
            let ended = self.readable(id, ReceiveHalf::readable);
            return Err(ended.err().unwrap_or(ReadError::Blocked));
        };
        self.on_read(key, data.len() as u64);
        Ok((offset, data))
    }

    /// Returns the offset up to which the application has read; `None` if the stream is over or send-only.
    pub fn read_offset(&mut self, id: StreamId) -> Option<u64> {
        self.receive_half(id).map(|half| half.buffer.offset())
    }

    /// Returns the key of a stream with readable bytes, or the error that `look` returns. If the error
    /// reports the end or a reset to the application, the receiving half is done.
    fn readable(
        &mut self,
        id: StreamId,
        look: impl FnOnce(&mut ReceiveHalf) -> Result<(), ReadError>,
    ) -> Result<usize, ReadError> {
        let key = self.table.find(id, self.now).ok_or(ReadError::Closed)?;
        let half = self.table.stream(key).receive.as_mut().ok_or(ReadError::Closed)?;
        match look(half) {
            Ok(()) => Ok(key),
            Err(error) => {
                if half.state.is_terminal() {
                    // Frees the memory now, because the sending half may remain open for long.
                    half.buffer.discard(&mut self.pool);
                }
                self.remove_if_done(key);
                Err(error)
            }
        }
    }

    fn on_read(&mut self, key: usize, n: u64) {
        let (now, rtt) = (self.now, self.rtt);
        let stream = self.table.stream(key);
        if stream.receive.as_mut().is_some_and(|half| half.on_consumed(n, now, rtt)) {
            stream.control.max_data = true;
            self.queue_control(key);
        }
        self.release(n);
    }

    /// Stops receiving, because the application does not want the rest. STOP_SENDING asks the peer to reset
    /// the stream, and data that still arrives is discarded.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let key = self.table.find(id, self.now).ok_or(ClosedStream)?;
        let stream = self.table.stream(key);
        let half = stream.receive.as_mut().filter(|half| !half.is_done() && half.stopped.is_none());
        stream.control.stop = half.ok_or(ClosedStream)?.stop(code, &mut self.pool);
        self.queue_control(key);
        self.drop_unread(key);
        self.remove_if_done(key);
        Ok(())
    }

    /// Counts the unread bytes as read, because the application will never read them, so that the peer
    /// receives the connection's credit for them.
    pub(super) fn drop_unread(&mut self, key: usize) {
        let unread = self.table.stream(key).receive.as_ref().map_or(0, |half| half.credit.outstanding());
        if unread > 0 {
            self.on_read(key, unread);
        }
    }

    /// Returns whether reading would return data, the end or a reset.
    pub fn is_readable(&mut self, id: StreamId) -> bool {
        self.receive_half(id).is_some_and(|half| half.has_news())
    }

    /// Returns the number of bytes that [`Self::write`] would accept now; `None` if the stream is closed for
    /// writing.
    pub fn writable(&mut self, id: StreamId) -> Option<u64> {
        let key = self.table.find(id, self.now)?;
        let send = self.table.stream(key).send.as_ref().filter(|send| send.is_open())?;
        let credit = send.credit.available();
        Some(self.room_for(key).min(credit))
    }

    /// Returns the progress of sending on a stream, for tasks that wait for the peer; `None` if the stream is
    /// closed for writing.
    pub fn send_progress(&mut self, id: StreamId) -> Option<SendProgress> {
        let send = self.send_half(id).filter(|send| send.is_open())?;
        let (written, buffered) = (send.buffer.end(), send.buffer.buffered());
        Some(SendProgress { written, buffered, credit: send.credit.available() })
    }

    /// Requests [`StreamEvent::Writable`] when the stream has room, for callers that check [`Self::writable`]
    /// first.
    pub fn notify_writable(&mut self, id: StreamId) {
        if let Some(key) = self.table.find(id, self.now) {
            self.want_room(key);
        }
    }

    /// Returns the cumulative number of streams of `dir` that the peer has been allowed to open.
    pub fn remote_limit(&mut self, dir: Dir) -> u64 {
        self.table.remote(dir).limit()
    }

    /// Returns the error code of the peer's STOP_SENDING, as long as the stream exists.
    pub fn stopped(&mut self, id: StreamId) -> Option<VarInt> {
        self.send_half(id)?.stopped
    }

    /// Returns the state of the sending half; `None` if the stream is over or receive-only.
    pub fn send_state(&mut self, id: StreamId) -> Option<super::SendState> {
        self.send_half(id).map(|send| send.state)
    }

    /// Returns whether nothing more can be written: the stream is finished, reset, stopped or over.
    pub fn is_send_closed(&mut self, id: StreamId) -> bool {
        !self.send_half(id).is_some_and(|send| send.is_open())
    }

    /// Returns whether nothing more can be read: the application has seen the end or the reset, or has
    /// stopped the stream.
    pub fn is_receive_closed(&mut self, id: StreamId) -> bool {
        !self.receive_half(id).is_some_and(|half| half.stopped.is_none() && !half.state.is_terminal())
    }

    fn send_half(&mut self, id: StreamId) -> Option<&mut SendHalf> {
        let key = self.table.find(id, self.now)?;
        self.table.stream(key).send.as_mut()
    }

    fn receive_half(&mut self, id: StreamId) -> Option<&mut ReceiveHalf> {
        let key = self.table.find(id, self.now)?;
        self.table.stream(key).receive.as_mut()
    }

    /// Records that the peer allows more streams than before.
    pub(super) fn on_more_streams(&mut self, dir: Dir) {
        let local = self.table.local(dir);
        if local.opened < local.limit {
            self.due.streams_blocked.set(dir, false);
            if std::mem::take(&mut local.wanted) {
                self.events.push_back(StreamEvent::Available(dir));
            }
        }
    }
}
