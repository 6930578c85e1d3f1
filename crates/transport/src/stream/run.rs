//! Data that comes in order on one stream, in several packets at once: put in its place packet by packet, and settled with credit,
//! windows and events for all of them together.

use std::time::Duration;

use anabranch_wire::{Stream, StreamId, Time};

use super::Streams;
use super::incoming::claim;
use super::placed::Reserved;
use super::receive_buffer::{Pool, ReceiveBuffer, TooFragmented};
use super::types::StreamEvent;
use crate::error::TransportError;

/// A stream that nothing is missing of, and what of it is in its buffer but not settled yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRun {
    stream: StreamId,
    key: usize,
    /// Offset of the first byte that is not settled.
    from: u64,
    /// Offset of the byte that is to come next.
    next: u64,
    /// The limits of the stream and of the connection do not let it go beyond this offset.
    limit: u64,
}

impl StreamRun {
    /// Whether this is what comes next, and allowed.
    #[inline(always)]
    fn goes_on(&self, stream: StreamId, offset: u64, len: usize) -> bool {
        stream == self.stream && offset == self.next && (1..=self.limit - self.next).contains(&(len as u64))
    }
}

impl Streams {
    /// Like [`Self::on_placed`], without FIN.
    #[inline(always)]
    pub(crate) fn on_placed_in_run(
        &mut self,
        now: Time,
        rtt: Duration,
        run: &mut Option<StreamRun>,
        reserved: &Reserved,
        len: usize,
    ) -> Result<(), TransportError> {
        let (stream, offset) = (reserved.stream(), reserved.offset());
        match run {
            Some(run) if run.goes_on(stream, offset, len) => {
                self.received.placed += len as u64;
                self.go_on(run, len, |buffer, pool| {
                    let grew = buffer.commit(reserved.slot(), len);
                    buffer.prepare_next(pool);
                    grew
                });
            }
            _ => {
                self.settle_run(now, rtt, run);
                self.on_placed(now, rtt, reserved, len, false)?;
                *run = self.begin_run();
            }
        }
        Ok(())
    }

    /// Like [`Self::on_stream`], without FIN.
    #[inline(always)]
    pub(crate) fn on_stream_in_run(
        &mut self,
        now: Time,
        rtt: Duration,
        run: &mut Option<StreamRun>,
        frame: &Stream<'_>,
    ) -> Result<(), TransportError> {
        let (offset, len) = (frame.offset, frame.data.len());
        match run {
            Some(run) if run.goes_on(frame.id, offset, len) => {
                self.received.copied += len as u64;
                self.go_on(run, len, |buffer, pool| buffer.insert(offset, frame.data, pool));
            }
            _ => {
                self.settle_run(now, rtt, run);
                self.on_stream(now, rtt, frame)?;
                *run = self.begin_run();
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn go_on(
        &mut self,
        run: &mut StreamRun,
        len: usize,
        put: impl FnOnce(&mut ReceiveBuffer, &mut Pool) -> Result<bool, TooFragmented>,
    ) {
        let half = self.table.stream(run.key).receive.as_mut();
        let grew = half.map(|half| put(&mut half.buffer, &mut self.pool));
        debug_assert_eq!(grew, Some(Ok(true)), "a stream with nothing missing takes what comes next");
        run.next += len as u64;
    }

    /// A run of the stream that received data last, if nothing is missing of it and its end is not known.
    pub(crate) fn begin_run(&mut self) -> Option<StreamRun> {
        let key = self.arrived?;
        let left = self.receive_credit.left()?;
        let stream = self.table.stream(key);
        let half = stream.receive.as_ref()?;
        let next = half.next_in_order()?;
        let limit = half.credit.left()?.min(left) + next;
        Some(StreamRun { stream: stream.id, key, from: next, next, limit })
    }

    /// What came of the stream counts as any other data. That it is within the limits was looked at when it came.
    pub(crate) fn settle_run(&mut self, now: Time, rtt: Duration, run: &mut Option<StreamRun>) {
        let Some(StreamRun { stream, key, from, next, .. }) = run.take() else { return };
        let Some(half) = self.table.stream(key).receive.as_mut().filter(|_| from < next) else { return };
        (self.now, self.rtt, self.arrived) = (now, rtt, Some(key));
        let settled = half.claim(next, false);
        let settled = settled.and_then(|new| claim(&mut self.receive_credit, &mut self.due.max_data, new));
        debug_assert!(settled.is_ok(), "{settled:?}");
        if !std::mem::replace(&mut half.notified, true) {
            self.events.push_back(StreamEvent::Readable(stream));
        }
    }
}
