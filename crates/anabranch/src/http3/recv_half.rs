//! Receiving half of a request's stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_http3::{Code, ReadError};
use anabranch_wire::StreamId;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tracing::debug;

use super::Error;
use super::datagrams::Datagrams;
use super::error::read_error;
use super::exchange::Exchange;
use super::half::Half;
use super::state::Access;
use crate::log::HTTP3;

/// Receiving half of a request's stream: a server reads the request's body from it, a client the response.
///
/// Dropping it before the end asks the peer to stop sending: with H3_REQUEST_CANCELLED on a client, with
/// H3_NO_ERROR on a server, which may respond without reading the whole request (RFC 9114 §4.1).
#[derive(Debug)]
pub struct RecvHalf {
    half: Half,
}

impl RecvHalf {
    pub(super) fn new(half: Half) -> Self {
        Self { half }
    }

    /// Returns the stream's identifier.
    pub fn id(&self) -> StreamId {
        self.half.exchange.id
    }

    /// Waits for the next header section of the response; for clients. Interim responses (1xx) come before
    /// the final one, which is followed only by the body.
    ///
    /// # Errors
    /// Fails if the server rejected the request or reset the stream, if the response is malformed, or if the
    /// connection is lost.
    pub async fn response(&mut self) -> Result<Response<()>, Error> {
        poll_fn(|cx| self.poll_response(cx)).await
    }

    /// Polls [`RecvHalf::response`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`RecvHalf::response`] does.
    pub fn poll_response(&mut self, cx: &Context<'_>) -> Poll<Result<Response<()>, Error>> {
        let poll = self.poll(cx, |access, id| match access.session.response(id) {
            Some(parts) => Ok(Response::from_parts(parts, ())),
            None => match access.session.read_end(id) {
                Some(error) => Err(Some(read_error(error).unwrap_or(Error::Closed))),
                None => Err(None),
            },
        });
        match &poll {
            Poll::Ready(Ok(head)) => self.tell_response(head),
            Poll::Ready(Err(_)) => self.end(),
            Poll::Pending => {}
        }
        poll
    }

    /// Returns the next piece of the body, at most `max` bytes, without a copy; `None` at the end.
    ///
    /// # Errors
    /// Fails if the peer reset the stream, if its message is malformed, or if the connection is lost.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, Error> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// Polls [`RecvHalf::read_chunk`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`RecvHalf::read_chunk`] does.
    pub fn poll_read_chunk(&mut self, cx: &Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, Error>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        self.poll_body(cx, |access, id| access.session.take(access.core.streams(), id, max))
    }

    /// Lends the next piece of the body, which is not empty, to `read`, without a copy. `read` returns the
    /// number of bytes that it has consumed. This function returns the same number, or `None` at the end of
    /// the body.
    ///
    /// The connection is blocked while `read` runs. `read` should therefore be fast, and must not use the
    /// connection or its streams, or it would deadlock.
    ///
    /// # Errors
    /// Fails as [`RecvHalf::read_chunk`] does.
    pub async fn read_with(&mut self, mut read: impl FnMut(&[u8]) -> usize) -> Result<Option<usize>, Error> {
        poll_fn(|cx| self.poll_read_with(cx, &mut read)).await
    }

    pub(super) fn poll_read_with(
        &mut self,
        cx: &Context<'_>,
        read: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<Result<Option<usize>, Error>> {
        self.poll_body(cx, |access, id| {
            let bytes = access.session.peek(access.core.streams(), id)?;
            let n = read(bytes).min(bytes.len());
            access.session.consume(access.core.streams(), id, n);
            Ok(n)
        })
    }

    /// Returns the trailers, if there are any, once the body was read to its end.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        self.half.exchange.with_session(|access, id| access.session.trailers(id))
    }

    /// Asks the peer to stop sending (STOP_SENDING with `code`).
    pub fn stop(&mut self, code: Code) {
        self.half.exchange.update(|access, id| access.session.stop(access.core.streams(), id, code));
        self.end();
    }

    /// Returns the request's datagrams (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        self.half.datagrams()
    }

    pub(super) fn exchange(&self) -> &Arc<Exchange> {
        &self.half.exchange
    }

    pub(super) fn is_server(&self) -> bool {
        self.half.is_server
    }

    pub(super) fn is_over(&self) -> bool {
        self.half.is_over
    }

    /// Sends 100 (Continue), after which the client may send the request's body; for servers.
    pub(super) fn send_continue(&self) {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = StatusCode::CONTINUE;
        // A failure is ignored: either the client is gone, or it sends the body after a while without this
        // response.
        let _ = self
            .half
            .exchange
            .update(|access, id| access.session.respond(access.core.streams(), id, &parts, false));
    }

    /// Aborts the request: stops and resets its stream with `code`.
    pub(super) fn abort(&mut self, code: Code) {
        self.half.is_over = true;
        self.half.exchange.abort(code);
    }

    fn poll_body<R>(
        &mut self,
        cx: &Context<'_>,
        read: impl FnOnce(&mut Access<'_>, StreamId) -> Result<R, ReadError>,
    ) -> Poll<Result<Option<R>, Error>> {
        let poll = self.poll(cx, |access, id| match read(access, id) {
            Ok(value) => Ok(Some(value)),
            Err(ReadError::Finished) => Ok(None),
            Err(error) => Err(read_error(error)),
        });
        if matches!(poll, Poll::Ready(Ok(None) | Err(_))) {
            self.end();
        }
        poll
    }

    fn tell_response(&self, head: &Response<()>) {
        let status = head.status().as_u16();
        let span = || self.half.exchange.connection.span();
        debug!(target: HTTP3, parent: &span(), stream = %self.half.exchange.id, status, "response");
    }

    /// Marks the end of reading. Wakes the task that waits for datagrams, since no more datagrams are
    /// delivered either (RFC 9297 §2.1).
    fn end(&mut self) {
        self.half.is_over = true;
        let waiting = self.half.exchange.with_session(|access, id| access.tasks.end_datagrams(id));
        waiting.into_iter().for_each(Waker::wake);
    }

    fn poll<R>(
        &self,
        cx: &Context<'_>,
        attempt: impl FnOnce(&mut Access<'_>, StreamId) -> Result<R, Option<Error>>,
    ) -> Poll<Result<R, Error>> {
        self.half.exchange.poll(attempt, |access, id| {
            access.tasks.wait_to_read(id, cx);
            // Reading may have skipped frames, which frees flow control credit.
            access.core.streams().has_pending_control()
        })
    }
}

impl Drop for RecvHalf {
    fn drop(&mut self) {
        if let Some(code) = self.half.code_of_drop(Code::NO_ERROR) {
            self.stop(code);
        }
    }
}
