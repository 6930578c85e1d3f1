//! Bodies that are received.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anabranch_http3::Code;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};

use super::Error;
use super::pace::Pace;
use super::recv_half::RecvHalf;

/// A body that is being received: of a request on a server, of a response on a client. After CONNECT it is
/// the data that the tunnel delivers.
///
/// This type is an [`http_body::Body`] whose frames are pieces as received, without a copy, and trailers.
/// Flow control stops a peer whose data is not read. Dropping a client's body before its end cancels the
/// request.
#[derive(Debug, Default)]
pub struct Body(Option<Box<Streaming>>);

#[derive(Debug)]
struct Streaming {
    half: RecvHalf,
    /// Number of bytes still to be received, if known.
    left: Option<u64>,
    pace: Option<Pace>,
    /// `true` on a server if the client waits for a 100 (Continue) response before it sends content (RFC 9110
    /// §10.1.1).
    expects_continue: bool,
    /// `true` once everything has been read, including trailers.
    read: bool,
}

impl Body {
    /// Creates a body without content.
    pub(super) fn empty() -> Self {
        Self(None)
    }

    pub(super) fn response(half: RecvHalf, left: Option<u64>) -> Self {
        Self::streaming(half, left, None, false)
    }

    pub(super) fn request(
        half: RecvHalf,
        left: Option<u64>,
        pace: Option<Pace>,
        expects_continue: bool,
    ) -> Self {
        Self::streaming(half, left, pace, expects_continue)
    }

    fn streaming(half: RecvHalf, left: Option<u64>, pace: Option<Pace>, expects_continue: bool) -> Self {
        Self(Some(Box::new(Streaming { half, left, pace, expects_continue, read: false })))
    }

    /// Returns the next piece, at most `max` bytes, without a copy; `None` at the end, where
    /// [`Body::trailers`] become available.
    ///
    /// # Errors
    /// Fails if the peer reset the stream or is too slow, if its message is malformed, or if the connection
    /// is lost.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, Error> {
        let Some(body) = &mut self.0 else { return Ok(None) };
        poll_fn(|cx| body.poll_chunk(cx, max)).await
    }

    /// Lends the next piece, which is not empty, to `read`, without a copy. `read` returns the number of
    /// bytes that it has consumed. This function returns the same number, or `None` at the end of the body.
    ///
    /// The connection is blocked while `read` runs. `read` should therefore be fast, and must not use the
    /// connection or its requests, or it would deadlock.
    ///
    /// # Errors
    /// Fails as [`Body::read_chunk`] does.
    pub async fn read_with(&mut self, mut read: impl FnMut(&[u8]) -> usize) -> Result<Option<usize>, Error> {
        let Some(body) = &mut self.0 else { return Ok(None) };
        poll_fn(|cx| body.poll(cx, |half, cx| half.poll_read_with(cx, &mut read), |n| *n)).await
    }

    /// Reads until the end, at most `limit` bytes.
    ///
    /// # Errors
    /// Fails as [`Body::read_chunk`] does, or if the body is longer than `limit`.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Bytes, Error> {
        let Some(first) = self.read_chunk(usize::MAX).await? else { return Ok(Bytes::new()) };
        let mut all = BytesMut::new();
        let mut next = Some(first);
        while let Some(chunk) = next {
            if all.len() + chunk.len() > limit {
                return Err(Error::TooLong(limit));
            }
            all.extend_from_slice(&chunk);
            next = self.read_chunk(usize::MAX).await?;
        }
        Ok(all.freeze())
    }

    /// Aborts the whole exchange, for services that end a tunnel with an error: stops and resets its stream with `code`
    /// (STOP_SENDING and RESET_STREAM), even if one direction has ended. Bytes of the response that the peer has not
    /// received are discarded.
    pub fn abort(&mut self, code: Code) {
        if let Some(body) = &mut self.0 {
            body.half.abort(code);
        }
    }

    /// Returns the trailers, if there are any, once the end was read.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        self.0.as_mut()?.half.trailers()
    }
}

impl Streaming {
    fn poll_chunk(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, Error>> {
        self.poll(cx, |half, cx| half.poll_read_chunk(cx, max), Bytes::len)
    }

    /// Calls `read`, and updates the remaining length and the check of the minimum rate.
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut RecvHalf, &Context<'_>) -> Poll<Result<Option<R>, Error>>,
        len: impl FnOnce(&R) -> usize,
    ) -> Poll<Result<Option<R>, Error>> {
        if self.half.is_over() {
            return Poll::Ready(Ok(None));
        }
        match read(&mut self.half, cx) {
            Poll::Ready(Ok(Some(piece))) => {
                let n = len(&piece);
                self.left = self.left.map(|left| left.saturating_sub(n as u64));
                if let Some(pace) = &mut self.pace {
                    pace.on_progress(n);
                }
                Poll::Ready(Ok(Some(piece)))
            }
            Poll::Ready(end) => {
                self.left = Some(0);
                Poll::Ready(end)
            }
            Poll::Pending => self.poll_patience(cx).map(Err),
        }
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if std::mem::take(&mut self.expects_continue) && !self.half.exchange().is_conversing() {
            self.half.send_continue();
        }
        let exchange = self.half.exchange();
        let received = || exchange.with_session(|access, _| access.core.streams().bytes_received());
        let exhausted = match &mut self.pace {
            Some(pace) if !exchange.is_conversing() => pace.poll_exhausted(cx, received),
            _ => Poll::Pending,
        };
        exhausted.map(|()| {
            self.half.abort(Code::EXCESSIVE_LOAD);
            Error::TooSlow
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(body) = self.0.as_mut().filter(|body| !body.read) else { return Poll::Ready(None) };
        match ready!(body.poll_chunk(cx, usize::MAX)) {
            Ok(Some(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Ok(None) => {
                body.read = true;
                Poll::Ready(body.half.trailers().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Err(error) => {
                body.read = true;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.read)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            None => SizeHint::with_exact(0),
            Some(body) => body.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if !self.half.is_server() && !self.half.is_over() {
            // Nobody waits for the response, so the rest of the request is not needed either.
            self.half.abort(Code::REQUEST_CANCELLED);
        }
    }
}

/// Returns the length that `content-length` declares. The session ensures that it is a number and the length
/// of the content.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.split(',').next()?.trim().parse().ok()
}

/// Returns the length in bytes of a response's body, if known.
pub(super) fn response_length(
    is_head: bool,
    is_connect: bool,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<u64> {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    match (is_head || bodiless, is_connect && status.is_success()) {
        (true, _) => Some(0),
        (false, true) => None,
        (false, false) => content_length(headers),
    }
}
