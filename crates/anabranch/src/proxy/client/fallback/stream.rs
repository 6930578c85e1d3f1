//! The state of a stream that both of its halves share.

use std::sync::Arc;

use anabranch_http3::Code;
use bytes::Bytes;
use h2::Reason;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::error::Http2Error;
use crate::lock::lock;
use crate::sync::Mutex;

/// A stream. It is reset when it is dropped before both directions have ended.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sending: Mutex<Sending>,
    /// End of the connection.
    ended: watch::Receiver<Option<Http2Error>>,
    /// Place among the tunnels of the connection.
    _place: OwnedSemaphorePermit,
}

/// The sending direction.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) stream: h2::SendStream<Bytes>,
    /// `true` once the end was sent, or the stream was reset by this end.
    pub(super) is_over: bool,
}

impl Stream {
    pub(super) fn new(
        stream: h2::SendStream<Bytes>,
        ended: watch::Receiver<Option<Http2Error>>,
        place: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        Arc::new(Self { sending: Mutex::new(Sending { stream, is_over: false }), ended, _place: place })
    }

    /// Converts an error of the stream. If the connection has ended, its reason says more.
    pub(super) fn error(&self, error: &h2::Error) -> Http2Error {
        match Http2Error::of_stream(error) {
            lost @ Http2Error::ConnectionLost(_) => self.ended.borrow().clone().unwrap_or(lost),
            error => error,
        }
    }

    /// Resets the stream in both directions, if it is still open in one of them. Bytes that wait are discarded.
    pub(super) fn reset(&self, reason: Reason) {
        let mut sending = lock(&self.sending);
        sending.is_over = true;
        sending.stream.send_reset(reason);
    }
}

/// Returns the error code of HTTP/2 for a code of HTTP/3 (RFC 9114 Appendix A.4).
pub(super) fn reason(code: Code) -> Reason {
    match code {
        Code::NO_ERROR => Reason::NO_ERROR,
        Code::CONNECT_ERROR => Reason::CONNECT_ERROR,
        Code::GENERAL_PROTOCOL_ERROR | Code::MESSAGE_ERROR | Code::DATAGRAM_ERROR => Reason::PROTOCOL_ERROR,
        Code::INTERNAL_ERROR => Reason::INTERNAL_ERROR,
        Code::EXCESSIVE_LOAD => Reason::ENHANCE_YOUR_CALM,
        Code::REQUEST_REJECTED => Reason::REFUSED_STREAM,
        _ => Reason::CANCEL,
    }
}
