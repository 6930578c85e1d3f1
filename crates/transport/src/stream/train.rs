//! In-order data of one stream in several packets of a batch. The data of each packet is written to the
//! receive buffer at once; flow control, windows and events are updated once for all packets.

use std::time::Duration;

use anabranch_wire::{Placement, Stream, StreamId, Time, TransportErrorCode};

use super::Streams;
use super::incoming::claim;
use super::placed::Reserved;
use super::receive_buffer::{Pool, ReceiveBuffer, TooFragmented};
use super::types::StreamEvent;
use crate::error::TransportError;

/// Train of in-order packets: a stream without gaps, and its bytes that are in the receive buffer but not yet
/// counted by flow control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamTrain {
    stream: StreamId,
    key: usize,
    /// Offset of the first byte that flow control has not counted.
    from: u64,
    /// Offset of the next byte in order.
    next: u64,
    /// Maximum offset that the limits of stream and connection allow.
    limit: u64,
}

impl StreamTrain {
    #[inline(always)]
    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// Returns whether a frame continues the train, does not end the stream, and is within the limits.
    #[inline(always)]
    pub(crate) fn is_next(&self, frame: &Stream<'_>) -> bool {
        !frame.fin && self.goes_on(frame.id, frame.offset, frame.data.len())
    }

    /// Returns whether a header names the data that continues the train.
    #[inline(always)]
    pub(super) fn is_named(&self, named: &Placement) -> bool {
        named.matches(self.stream, self.next)
    }

    /// Returns whether this data continues the train and is within the limits.
    #[inline(always)]
    fn goes_on(&self, stream: StreamId, offset: u64, len: usize) -> bool {
        stream == self.stream && offset == self.next && (1..=self.limit - self.next).contains(&(len as u64))
    }
}

impl Streams {
    /// Handles a STREAM frame without FIN. Data that continues the train is added to it. Other data ends the
    /// train, is handled by [`Self::on_placed`], and may begin a new train.
    #[inline(always)]
    pub(crate) fn on_placed_in_train(
        &mut self,
        now: Time,
        rtt: Duration,
        train: &mut Option<StreamTrain>,
        reserved: &Reserved,
        len: usize,
    ) -> Result<(), TransportError> {
        let (stream, offset) = (reserved.stream(), reserved.offset());
        match train {
            Some(train) if train.goes_on(stream, offset, len) => {
                self.received.placed += len as u64;
                self.go_on(train, len, |buffer, pool| {
                    let grew = buffer.commit(reserved.slot(), len, pool);
                    buffer.prepare_next(pool);
                    grew
                })?;
            }
            _ => {
                self.credit_train(now, rtt, train)?;
                self.on_placed(now, rtt, reserved, len, false)?;
                *train = self.begin_train();
            }
        }
        Ok(())
    }

    /// Handles a STREAM frame without FIN, the only frame of a packet with a plaintext of `payload_len` bytes.
    /// Data that continues the train is added to it. Other data ends the train, is handled by
    /// [`Self::on_stream`], and may begin a new train.
    #[inline(always)]
    pub(crate) fn on_stream_in_train(
        &mut self,
        now: Time,
        rtt: Duration,
        train: &mut Option<StreamTrain>,
        frame: &Stream<'_>,
        payload_len: usize,
    ) -> Result<(), TransportError> {
        let (offset, len) = (frame.offset, frame.data.len());
        match train {
            Some(train) if train.goes_on(frame.id, offset, len) => {
                self.expect_lead(payload_len - len);
                self.received.copied += len as u64;
                self.go_on(train, len, |buffer, pool| buffer.insert(offset, frame.data, pool))?;
            }
            _ => {
                self.credit_train(now, rtt, train)?;
                self.on_stream(now, rtt, frame)?;
                *train = self.begin_train();
            }
        }
        Ok(())
    }

    /// Adds `len` bytes of data to the train. They must be in their [place](Self::next_place), and belong to a
    /// frame for which [`StreamTrain::is_next`] is `true`.
    #[inline(always)]
    pub(crate) fn on_next_placed(
        &mut self,
        train: &mut Option<StreamTrain>,
        len: usize,
    ) -> Result<(), TransportError> {
        let train = train.as_mut().ok_or_else(|| lost("stream data in order has no stream"))?;
        self.received.placed += len as u64;
        self.go_on(train, len, |buffer, pool| Ok(buffer.commit_next(len, pool)))
    }

    /// Adds data to the train. Fails with INTERNAL_ERROR if the data did not become readable: acknowledging
    /// it would lose the data.
    #[inline(always)]
    fn go_on(
        &mut self,
        train: &mut StreamTrain,
        len: usize,
        put: impl FnOnce(&mut ReceiveBuffer, &mut Pool) -> Result<bool, TooFragmented>,
    ) -> Result<(), TransportError> {
        let half = self.table.stream(train.key).receive.as_mut();
        let grew = half.map(|half| put(&mut half.buffer, &mut self.pool));
        if grew != Some(Ok(true)) || Fault::NotTaken.is_on() {
            return Err(lost("stream data in order could not be kept"));
        }
        train.next += len as u64;
        Ok(())
    }

    /// Returns a train for the stream that received data last, if it has no gap and its end is not known.
    pub(crate) fn begin_train(&mut self) -> Option<StreamTrain> {
        let key = self.arrived?;
        let left = self.flow.receive_credit.left()?;
        let stream = self.table.stream(key);
        let half = stream.receive.as_ref()?;
        let next = half.next_in_order()?;
        let limit = half.credit.left()?.min(left) + next;
        Some(StreamTrain { stream: stream.id, key, from: next, next, limit })
    }

    /// Counts the train's bytes in flow control. The limits were checked on arrival. If they are exceeded
    /// now, this end has miscounted, and the function fails with INTERNAL_ERROR.
    pub(crate) fn credit_train(
        &mut self,
        now: Time,
        rtt: Duration,
        train: &mut Option<StreamTrain>,
    ) -> Result<(), TransportError> {
        let Some(StreamTrain { stream, key, from, next, .. }) = train.take() else { return Ok(()) };
        if from == next {
            return Ok(());
        }
        let half = self.table.stream(key).receive.as_mut();
        let half = half.ok_or_else(|| lost("a stream was gone before its data was counted"))?;
        (self.now, self.rtt, self.arrived) = (now, rtt, Some(key));
        let credited = half.claim(next, false);
        let credited =
            credited.and_then(|new| claim(&mut self.flow.receive_credit, &mut self.due.max_data, new));
        if credited.is_err() || Fault::NotCredited.is_on() {
            return Err(lost("stream data in order was miscounted"));
        }
        if !std::mem::replace(&mut half.notified, true) {
            self.events.push_back(StreamEvent::Readable(stream));
        }
        Ok(())
    }
}

/// Returns INTERNAL_ERROR for a train's data that this end failed to store or to count. Without the error,
/// its packets would be acknowledged although the data is lost.
#[cold]
fn lost(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::INTERNAL_ERROR, reason)
}

/// Fault that a test injects into trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The data does not become readable.
    NotTaken,
    /// The data exceeds a limit.
    NotCredited,
}

#[cfg(test)]
thread_local! {
    /// Fault of the running test.
    pub(crate) static FAULT: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

impl Fault {
    #[cfg(test)]
    fn is_on(self) -> bool {
        FAULT.get() == Some(self)
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn is_on(self) -> bool {
        false
    }
}
