//! Sending half of a stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_http3::Code;
use bytes::Bytes;
use h2::Reason;

use super::MAX_SEND_BUFFER;
use super::error::Http2Error;
use super::stream::{Sending, Stream, reason};
use crate::lock::lock;

/// Sending half of a request's stream. Dropping it before [`SendHalf::finish`] resets the stream with CANCEL.
#[derive(Debug)]
pub(in crate::proxy::client) struct SendHalf(Arc<Stream>);

impl SendHalf {
    pub(super) fn new(stream: Arc<Stream>) -> Self {
        Self(stream)
    }

    /// Sends as much of `data` as the windows and the buffer have room for. Removes these bytes from the front of `data`, and
    /// returns their number. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails if the stream was finished or reset, or if the connection is lost.
    pub(in crate::proxy::client) fn poll_write(
        &mut self,
        cx: &Context<'_>,
        data: &mut Bytes,
    ) -> Poll<Result<usize, Http2Error>> {
        let mut sending = lock(&self.0.sending);
        if sending.is_over {
            return Poll::Ready(Err(Http2Error::Closed));
        }
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let cx = &mut Context::from_waker(cx.waker());
        // h2 would buffer bytes beyond the windows without a limit, so they stay with the caller.
        sending.stream.reserve_capacity(data.len().min(MAX_SEND_BUFFER));
        while sending.stream.capacity() == 0 {
            match ready!(sending.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(self.0.error(&error))),
                None => return Poll::Ready(Err(self.end(&mut sending, cx))),
            }
        }
        let piece = data.split_to(sending.stream.capacity().min(data.len()));
        let len = piece.len();
        match sending.stream.send_data(piece, false) {
            Ok(()) => Poll::Ready(Ok(len)),
            Err(_) => Poll::Ready(Err(self.end(&mut sending, cx))),
        }
    }

    /// Ends the direction (END_STREAM), after what was written.
    ///
    /// # Errors
    /// Fails as [`SendHalf::poll_write`] does.
    pub(in crate::proxy::client) fn finish(&mut self) -> Result<(), Http2Error> {
        let mut sending = lock(&self.0.sending);
        if sending.is_over {
            return Err(Http2Error::Closed);
        }
        match sending.stream.send_data(Bytes::new(), true) {
            Ok(()) => {
                sending.is_over = true;
                Ok(())
            }
            Err(_) => Err(self.end(&mut sending, &mut Context::from_waker(std::task::Waker::noop()))),
        }
    }

    /// Resets the stream, in both directions: HTTP/2 knows no other reset.
    pub(in crate::proxy::client) fn reset(&mut self, code: Code) {
        self.0.reset(reason(code));
    }

    /// Waits until the proxy resets the stream or the connection is lost, and returns the reason.
    pub(in crate::proxy::client) async fn stopped(&mut self) -> Http2Error {
        poll_fn(|cx| {
            let mut sending = lock(&self.0.sending);
            sending.stream.poll_reset(cx).map(|reset| match reset {
                Ok(reason) => Http2Error::of_reason(reason),
                Err(error) => self.0.error(&error),
            })
        })
        .await
    }

    /// Returns the reason why the stream accepts no more bytes.
    fn end(&self, sending: &mut Sending, cx: &mut Context<'_>) -> Http2Error {
        match sending.stream.poll_reset(cx) {
            Poll::Ready(Ok(reason)) => Http2Error::of_reason(reason),
            Poll::Ready(Err(error)) => self.0.error(&error),
            Poll::Pending => Http2Error::Closed,
        }
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if !lock(&self.0.sending).is_over {
            self.0.reset(Reason::CANCEL);
        }
    }
}
