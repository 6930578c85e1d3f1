//! Sending half of a request stream, with a queue of bytes that flow control has blocked.

use std::collections::VecDeque;

use anabranch_transport::stream::{self, Streams};
use anabranch_wire::StreamId;
use bytes::Bytes;

use super::types::WriteError;
use crate::error::Code;
use crate::frame::{FrameType, header_len, write_header};

/// Minimum length of a DATA frame's payload, in bytes, even if flow control credit is nearly exhausted.
const MIN_PROMISE: u64 = 1;

/// Progress of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// The header section has not been sent. Interim responses may precede it.
    Head,
    /// The content, or the bytes of a tunnel, are being sent.
    Body,
    /// Nothing more will be sent.
    Over,
}

/// Sending half of a request stream. A frame that was begun is always completed, because its header declares
/// its length.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) state: Sending,
    /// Bytes that flow control has blocked. The application adds none while the queue is not empty.
    queue: VecDeque<Bytes>,
    /// `true` if the stream ends after the queue.
    finish: bool,
    /// `true` if the application waits for flow control credit.
    pub(super) waiting: bool,
    /// Error code of the peer's STOP_SENDING.
    pub(super) stopped: Option<Code>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self { state: Sending::Head, queue: VecDeque::new(), finish: false, waiting: false, stopped: None }
    }

    /// Returns whether the transport has accepted all bytes.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Copies `bytes` into the stream. Bytes without flow control credit are queued.
    pub(super) fn push(&mut self, streams: &mut Streams, id: StreamId, bytes: &[u8]) {
        let written = if self.queue.is_empty() { streams.write(id, bytes) } else { Ok(0) };
        match written {
            Ok(n) if n == bytes.len() => {}
            Ok(n) => self.queue.push_back(Bytes::copy_from_slice(&bytes[n..])),
            Err(stream::WriteError::Blocked) => self.queue.push_back(Bytes::copy_from_slice(bytes)),
            Err(error) => self.close(error),
        }
    }

    /// Writes like [`Self::push`], but without copying.
    fn push_bytes(&mut self, streams: &mut Streams, id: StreamId, mut bytes: Bytes) {
        self.queue.push_back(std::mem::take(&mut bytes));
        self.flush(streams, id);
    }

    /// Moves bytes from the front of `data` into a DATA frame: as many as flow control permits, but at least
    /// one. Returns their number.
    pub(super) fn write(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        data: &mut Bytes,
    ) -> Result<usize, WriteError> {
        self.check(Sending::Body)?;
        if data.is_empty() {
            return Ok(0);
        }
        self.flush(streams, id);
        let room = streams.writable(id).unwrap_or_default();
        if let Some(code) = self.stopped {
            return Err(WriteError::Stopped(code));
        }
        if !self.queue.is_empty() || room == 0 {
            streams.notify_writable(id);
            self.waiting = true;
            return Err(WriteError::Blocked);
        }
        let len = data.len() as u64;
        let header = header_len(FrameType::DATA, len.min(room)) as u64;
        let n = len.min(room.saturating_sub(header).max(MIN_PROMISE));
        let mut bytes = Vec::with_capacity(header_len(FrameType::DATA, n));
        write_header(FrameType::DATA, n, &mut bytes);
        self.push(streams, id, &bytes);
        let n = usize::try_from(n).unwrap_or(data.len());
        self.push_bytes(streams, id, data.split_to(n));
        Ok(n)
    }

    /// Ends the complete message. The stream is finished once everything is written.
    pub(super) fn finish(&mut self, streams: &mut Streams, id: StreamId) {
        self.state = Sending::Over;
        self.finish = true;
        self.flush(streams, id);
    }

    /// Writes queued bytes until flow control blocks.
    pub(super) fn flush(&mut self, streams: &mut Streams, id: StreamId) {
        while let Some(front) = self.queue.front_mut() {
            match streams.write_bytes(id, front) {
                Ok(_) if front.is_empty() => _ = self.queue.pop_front(),
                Ok(_) | Err(stream::WriteError::Blocked) => {
                    // After a partial write, the transport reports when writing can continue.
                    return;
                }
                Err(error) => return self.close(error),
            }
        }
        if std::mem::take(&mut self.finish) {
            // Fails if the peer has stopped the stream, which has then ended anyway.
            let _ = streams.finish(id);
        }
    }

    /// Discards the queue; nothing more is written.
    pub(super) fn abandon(&mut self) {
        self.state = Sending::Over;
        self.queue.clear();
        self.finish = false;
    }

    fn close(&mut self, error: stream::WriteError) {
        if let stream::WriteError::Stopped(code) = error {
            self.stopped.get_or_insert(Code::from(code));
        }
        self.abandon();
    }

    /// Checks that the message's progress is `state`.
    pub(super) fn check(&self, state: Sending) -> Result<(), WriteError> {
        match self.stopped {
            Some(code) => Err(WriteError::Stopped(code)),
            None if self.state == state => Ok(()),
            None => Err(WriteError::Closed),
        }
    }
}
