//! The sending half of a stream.

use crate::error::{stream_id, varint, write_error};
use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};

/// The sending half of a stream.
///
/// Dropping it finishes the stream. If a frame was written only in part, the stream is reset with
/// H3_REQUEST_CANCELLED instead.
pub struct SendStream<B: Buf> {
    stream: anabranch::SendStream,
    /// Data from h3 that has not been written to the stream completely.
    writing: Option<WriteBuf<B>>,
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn new(stream: anabranch::SendStream) -> Self {
        Self { stream, writing: None }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(data) = &mut self.writing {
            while data.has_remaining() {
                match ready!(self.stream.poll_write(cx, data.chunk())) {
                    Ok(written) => data.advance(written),
                    Err(error) => {
                        self.writing = None;
                        return Poll::Ready(Err(write_error(error)));
                    }
                }
            }
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            return Err(not_ready());
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        // A cancelled call may have left the rest of a frame.
        ready!(self.poll_ready(cx))?;
        // Succeeds if the peer has stopped the stream: a server that has answered may drop the request before
        // the client's FIN arrives (RFC 9114 §4.1), and the response must still be read.
        let Err(closed) = self.stream.finish() else { return Poll::Ready(Ok(())) };
        // An empty write returns the reason why the stream is closed.
        let error = match self.stream.poll_write(cx, &[]) {
            Poll::Ready(Err(error)) => write_error(error),
            _ => StreamErrorIncoming::Unknown(Box::new(closed)),
        };
        Poll::Ready(Err(error))
    }

    fn reset(&mut self, reset_code: u64) {
        self.writing = None;
        // Fails if the peer has received all of the stream. Nothing is left to do then.
        let _ = self.stream.reset(varint(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        if self.writing.is_some() {
            return Poll::Ready(Err(not_ready()));
        }
        let written = ready!(self.stream.poll_write(cx, buf.chunk())).map_err(write_error)?;
        buf.advance(written);
        Poll::Ready(Ok(written))
    }
}

impl<B: Buf> Drop for SendStream<B> {
    fn drop(&mut self) {
        // If a stream ends within a frame, the peer closes the whole connection (H3_FRAME_ERROR, RFC 9114
        // §7.1).
        if self.writing.as_ref().is_some_and(Buf::has_remaining) {
            let _ = self.stream.reset(varint(Code::H3_REQUEST_CANCELLED.value()));
        }
    }
}

impl<B: Buf> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Returns the error for a caller that sends more data before the previous frame was sent completely. This
/// happens if a call that waited for room was cancelled. The error ends the stream, not the connection.
fn not_ready() -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown("a frame has only been written in part".into())
}
