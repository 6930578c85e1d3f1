//! Receiving half of a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_http3::Code;
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::Response;

use super::error::Http2Error;
use super::stream::{Stream, reason};
use crate::lock::lock;

/// Receiving half of a request's stream. Dropping it before the end resets the stream with CANCEL.
#[derive(Debug)]
pub(in crate::proxy::client) struct RecvHalf {
    stream: Arc<Stream>,
    content: Content,
    /// Received bytes that nobody has taken yet. The window does not include room for them.
    unread: Bytes,
}

#[derive(Debug)]
enum Content {
    /// The response has not arrived.
    Awaited(ResponseFuture),
    Open(RecvStream),
    Ended,
    Failed,
}

impl RecvHalf {
    pub(super) fn new(stream: Arc<Stream>, response: ResponseFuture) -> Self {
        Self { stream, content: Content::Awaited(response), unread: Bytes::new() }
    }

    /// Waits for the final response.
    ///
    /// # Errors
    /// Fails if the proxy rejected the request or reset the stream, or if the connection is lost.
    pub(in crate::proxy::client) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Http2Error>> {
        let Content::Awaited(response) = &mut self.content else {
            return Poll::Ready(Err(Http2Error::Closed));
        };
        match ready!(Pin::new(response).poll(cx)) {
            Ok(response) => {
                let (parts, content) = response.into_parts();
                self.content = Content::Open(content);
                Poll::Ready(Ok(Response::from_parts(parts, ())))
            }
            Err(error) => {
                self.content = Content::Failed;
                Poll::Ready(Err(self.stream.error(&error)))
            }
        }
    }

    /// Returns the next piece of the content, at most `max` bytes; `None` at the end. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails if the proxy reset the stream, or if the connection is lost.
    pub(in crate::proxy::client) fn poll_read_chunk(
        &mut self,
        cx: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, Http2Error>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        let content = match &mut self.content {
            Content::Open(content) => content,
            Content::Ended => return Poll::Ready(Ok(None)),
            Content::Awaited(_) | Content::Failed => return Poll::Ready(Err(Http2Error::Closed)),
        };
        while self.unread.is_empty() {
            match ready!(content.poll_data(&mut Context::from_waker(cx.waker()))) {
                Some(Ok(data)) => self.unread = data,
                Some(Err(error)) => {
                    self.content = Content::Failed;
                    return Poll::Ready(Err(self.stream.error(&error)));
                }
                None => {
                    self.content = Content::Ended;
                    return Poll::Ready(Ok(None));
                }
            }
        }
        let piece = self.unread.split_to(max.min(self.unread.len()));
        // If this fails, the stream has ended, and the window does not matter.
        let _ = content.flow_control().release_capacity(piece.len());
        Poll::Ready(Ok(Some(piece)))
    }

    /// Resets the stream unless it has ended.
    pub(in crate::proxy::client) fn stop(&mut self, code: Code) {
        self.give_up(reason(code));
    }

    fn give_up(&mut self, reason: Reason) {
        if matches!(self.content, Content::Awaited(_) | Content::Open(_)) {
            self.content = Content::Failed;
            self.stream.reset(reason);
        }
    }
}

impl Drop for RecvHalf {
    fn drop(&mut self) {
        // A reset would overtake bytes that were written before the end. Without it the stream is reset as soon as they
        // are sent, because nobody refers to it any more.
        if !lock(&self.stream.sending).is_over {
            self.give_up(Reason::CANCEL);
        }
    }
}
