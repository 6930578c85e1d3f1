//! Capsules that a client sends on a tunnel's stream (RFC 9297 §3).

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use anabranch_http3::Code;
use anabranch_http3::capsule::CapsuleType;
use anabranch_wire::push_varint;
use bytes::Bytes;

use super::stream::{TunnelReceiver, TunnelSender};

/// Maximum number of whole capsules that wait behind the one that is being sent.
pub(super) const MAX_WAITING_CAPSULES: usize = 16;

/// Sending half of a tunnel's stream.
#[derive(Debug)]
pub(super) struct CapsuleStream {
    half: TunnelSender,
    /// Rest of a capsule of which a part was sent.
    rest: Bytes,
    /// Whole capsules that wait behind `rest`.
    waiting: VecDeque<Bytes>,
    /// Task that reads the tunnel; it also sends `rest`.
    reader: Option<Waker>,
}

impl CapsuleStream {
    pub(super) fn new(half: TunnelSender) -> Self {
        Self { half, rest: Bytes::new(), waiting: VecDeque::new(), reader: None }
    }

    /// Sends an HTTP datagram with this context ID as a DATAGRAM capsule. Returns `false` if the datagram is dropped because
    /// an earlier capsule is not sent yet.
    ///
    /// # Errors
    /// Fails if the stream or the connection has ended.
    pub(super) fn send_datagram(&mut self, context: u8, payload: &[u8]) -> io::Result<bool> {
        if self.is_busy()? {
            return Ok(false);
        }
        let mut capsule = Vec::with_capacity(payload.len() + 10);
        push_varint(&mut capsule, CapsuleType::DATAGRAM.0);
        push_varint(&mut capsule, payload.len() as u64 + 1);
        capsule.push(context);
        capsule.extend_from_slice(payload);
        self.rest = capsule.into();
        self.is_busy().map(|_| true)
    }

    /// Sends a whole capsule, after those that wait already. Returns `false` and drops it if [`MAX_WAITING_CAPSULES`] wait.
    ///
    /// # Errors
    /// Fails if the stream or the connection has ended.
    pub(super) fn send_control(&mut self, capsule: Vec<u8>) -> io::Result<bool> {
        if self.waiting.len() >= MAX_WAITING_CAPSULES {
            return Ok(false);
        }
        self.waiting.push_back(capsule.into());
        self.is_busy().map(|_| true)
    }

    /// Ends both directions because the proxy has sent a wrong capsule, or a part of one (RFC 9297 §3.3). Returns the error for
    /// the program.
    pub(super) fn abort(&mut self, receiver: &mut TunnelReceiver) -> io::Error {
        self.rest.clear();
        self.waiting.clear();
        self.half.reset(Code::MESSAGE_ERROR);
        receiver.stop(Code::MESSAGE_ERROR);
        io::Error::new(io::ErrorKind::InvalidData, "the proxy sent an invalid capsule")
    }

    /// Sends as much as flow control allows. Returns whether bytes remain.
    fn is_busy(&mut self) -> io::Result<bool> {
        match self.poll_rest(None) {
            Poll::Ready(sent) => sent.map(|()| false),
            Poll::Pending => Ok(true),
        }
    }

    /// Sends as much as flow control allows. If bytes remain, the reading task is woken when it allows more. The reading task
    /// passes its `cx`, which is kept; all other callers pass `None`.
    pub(super) fn poll_rest(&mut self, cx: Option<&Context<'_>>) -> Poll<io::Result<()>> {
        if let Some(cx) = cx {
            self.reader = Some(cx.waker().clone());
        }
        let waker = self.reader.clone().unwrap_or_else(|| Waker::noop().clone());
        let cx = Context::from_waker(&waker);
        loop {
            while !self.rest.is_empty() {
                ready!(self.half.poll_write(&cx, &mut self.rest))?;
            }
            match self.waiting.pop_front() {
                Some(next) => self.rest = next,
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Drop for CapsuleStream {
    fn drop(&mut self) {
        match self.rest.is_empty() && self.waiting.is_empty() {
            // If this fails, the stream has ended already.
            true => _ = self.half.finish(),
            false => self.half.reset(Code::REQUEST_CANCELLED),
        }
    }
}
