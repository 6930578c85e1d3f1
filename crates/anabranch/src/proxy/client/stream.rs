//! Streams of tunnels, over HTTP/3 or HTTP/2.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use anabranch_http3::Code;
use bytes::Bytes;
use http::Response;

use super::fallback::{self, Http2Error};
use crate::http3::{self, Datagrams, is_no_error};

/// Reason why a tunnel's stream has ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Over HTTP/3.
    #[error(transparent)]
    Http3(#[from] http3::Error),
    /// Over HTTP/2.
    #[error(transparent)]
    Http2(#[from] Http2Error),
}

impl StreamError {
    /// Returns whether the proxy wants no more bytes, although it may still send some (RFC 9114 §4.1, RFC 9113 §8.1).
    pub fn is_enough(&self) -> bool {
        match self {
            Self::Http3(error) => matches!(error, http3::Error::Stopped(code) if is_no_error(*code)),
            Self::Http2(error) => error.is_enough(),
        }
    }

    /// Returns whether the request may be sent again: the proxy has not processed it, or the connection is lost and the
    /// tunnel has carried nothing.
    pub(super) fn may_be_repeated(&self) -> bool {
        match self {
            Self::Http3(error) => {
                matches!(error, http3::Error::Rejected | http3::Error::ConnectionLost(_))
            }
            Self::Http2(error) => {
                matches!(error, Http2Error::Rejected | Http2Error::GoneAway | Http2Error::ConnectionLost(_))
            }
        }
    }
}

/// Converts the error as that of a TCP connection. RFC 9114 §4.4: a proxy that has received a RST resets the stream and stops
/// it.
impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Http3(error) => match error {
                http3::Error::Reset(_) | http3::Error::Stopped(_) | http3::Error::Rejected => {
                    Self::new(io::ErrorKind::ConnectionReset, error)
                }
                http3::Error::ConnectionLost(_) => Self::new(io::ErrorKind::ConnectionAborted, error),
                error => error.into(),
            },
            StreamError::Http2(error) => error.into(),
        }
    }
}

/// Sending half of a tunnel's stream.
///
/// Dropping it before [`TunnelSender::finish`] resets the stream.
#[derive(Debug)]
pub struct TunnelSender(Sending);

#[derive(Debug)]
enum Sending {
    Http3(http3::SendHalf),
    Http2(fallback::SendHalf),
}

/// Receiving half of a tunnel's stream.
///
/// Dropping it before the end asks the proxy to stop sending. Over HTTP/2, which cannot ask for that, the stream is reset.
#[derive(Debug)]
pub struct TunnelReceiver(Receiving);

#[derive(Debug)]
enum Receiving {
    Http3(http3::RecvHalf),
    Http2(fallback::RecvHalf),
}

impl From<http3::SendHalf> for TunnelSender {
    fn from(half: http3::SendHalf) -> Self {
        Self(Sending::Http3(half))
    }
}

impl From<fallback::SendHalf> for TunnelSender {
    fn from(half: fallback::SendHalf) -> Self {
        Self(Sending::Http2(half))
    }
}

impl From<http3::RecvHalf> for TunnelReceiver {
    fn from(half: http3::RecvHalf) -> Self {
        Self(Receiving::Http3(half))
    }
}

impl From<fallback::RecvHalf> for TunnelReceiver {
    fn from(half: fallback::RecvHalf) -> Self {
        Self(Receiving::Http2(half))
    }
}

impl TunnelSender {
    /// Sends all of `data`, without a copy. Waits while flow control or the send buffer has no room.
    ///
    /// # Errors
    /// Fails if the proxy stopped or reset the stream, if the connection is lost, or if the stream is finished.
    pub async fn write(&mut self, mut data: Bytes) -> Result<(), StreamError> {
        while !data.is_empty() {
            poll_fn(|cx| self.poll_write(cx, &mut data)).await?;
        }
        Ok(())
    }

    /// Sends as much of `data` as there is room for, without a copy. Removes these bytes from the front of `data`, and
    /// returns their number. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`TunnelSender::write`] does.
    pub fn poll_write(&mut self, cx: &Context<'_>, data: &mut Bytes) -> Poll<Result<usize, StreamError>> {
        match &mut self.0 {
            Sending::Http3(half) => half.poll_write(cx, data).map_err(StreamError::Http3),
            Sending::Http2(half) => half.poll_write(cx, data).map_err(StreamError::Http2),
        }
    }

    /// Ends the direction: the target receives the written bytes, and then the end.
    ///
    /// # Errors
    /// Fails as [`TunnelSender::write`] does.
    pub fn finish(&mut self) -> Result<(), StreamError> {
        match &mut self.0 {
            Sending::Http3(half) => half.finish().map_err(StreamError::Http3),
            Sending::Http2(half) => half.finish().map_err(StreamError::Http2),
        }
    }

    /// Resets the direction with `code`. Over HTTP/2, the stream is reset in both directions, with the error code that
    /// corresponds to it (RFC 9114 Appendix A.4).
    pub fn reset(&mut self, code: Code) {
        match &mut self.0 {
            Sending::Http3(half) => half.reset(code),
            Sending::Http2(half) => half.reset(code),
        }
    }

    /// Waits until the proxy stops or resets the stream, or until the connection is lost. Returns the reason.
    pub async fn stopped(&mut self) -> StreamError {
        match &mut self.0 {
            Sending::Http3(half) => half.stopped().await.into(),
            Sending::Http2(half) => half.stopped().await.into(),
        }
    }

    /// Returns the datagrams of the request, and the stream's ID; `None` over HTTP/2.
    pub(super) fn datagrams(&self) -> Option<(Datagrams, u64)> {
        match &self.0 {
            Sending::Http3(half) => Some((half.datagrams(), half.id().index())),
            Sending::Http2(_) => None,
        }
    }
}

impl TunnelReceiver {
    /// Returns the next piece, at most `max` bytes, without a copy; `None` at the end.
    ///
    /// # Errors
    /// Fails if the proxy reset the stream, or if the connection is lost.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, StreamError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// Polls [`TunnelReceiver::read_chunk`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`TunnelReceiver::read_chunk`] does.
    pub fn poll_read_chunk(
        &mut self,
        cx: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, StreamError>> {
        match &mut self.0 {
            Receiving::Http3(half) => half.poll_read_chunk(cx, max).map_err(StreamError::Http3),
            Receiving::Http2(half) => half.poll_read_chunk(cx, max).map_err(StreamError::Http2),
        }
    }

    /// Asks the proxy to stop sending, with `code`. Over HTTP/2, the stream is reset unless this direction has ended.
    pub fn stop(&mut self, code: Code) {
        match &mut self.0 {
            Receiving::Http3(half) => half.stop(code),
            Receiving::Http2(half) => half.stop(code),
        }
    }

    /// Waits for the final response.
    pub(super) async fn response(&mut self) -> Result<Response<()>, StreamError> {
        match &mut self.0 {
            Receiving::Http3(half) => loop {
                let response = half.response().await?;
                if !response.status().is_informational() {
                    return Ok(response);
                }
            },
            Receiving::Http2(half) => Ok(poll_fn(|cx| half.poll_response(cx)).await?),
        }
    }
}
