//! Errors of HTTP/2.

use std::io;
use std::sync::Arc;

use h2::Reason;

/// Reason why a stream or a connection of HTTP/2 has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Http2Error {
    /// The proxy reset the stream (RST_STREAM) with this error code (RFC 9113 §7).
    #[error("reset by the proxy: {}", reason(.0))]
    Reset(u32),
    /// The proxy did not process the request, so it may be sent again (RFC 9113 §8.7).
    #[error("rejected by the proxy before it was processed")]
    Rejected,
    /// The proxy has closed the connection in order (GOAWAY with NO_ERROR, RFC 9113 §6.8).
    #[error("the proxy has closed the connection")]
    GoneAway,
    /// The connection is lost for this reason.
    #[error("the connection is lost: {0}")]
    ConnectionLost(Arc<str>),
    /// This end has finished or reset the stream before.
    #[error("the stream is closed")]
    Closed,
}

/// Returns an error code with its description.
fn reason(code: &u32) -> Reason {
    Reason::from(*code)
}

impl Http2Error {
    /// Creates the error of a connection that is lost.
    pub(super) fn lost(reason: &str) -> Self {
        Self::ConnectionLost(reason.into())
    }

    /// Converts the error code of a RST_STREAM frame.
    pub(super) fn of_reason(reason: Reason) -> Self {
        match reason {
            Reason::REFUSED_STREAM => Self::Rejected,
            reason => Self::Reset(reason.into()),
        }
    }

    /// Converts an error of a stream.
    pub(super) fn of_stream(error: &h2::Error) -> Self {
        match error.reason() {
            // RFC 9113 §6.8: streams with higher identifiers were not processed.
            Some(_) if error.is_go_away() && error.is_remote() => Self::Rejected,
            Some(reason) if error.is_reset() && (error.is_remote() || error.is_library()) => {
                Self::of_reason(reason)
            }
            Some(_) if error.is_go_away() => Self::lost(&error.to_string()),
            None if error.is_io() => Self::lost(&error.to_string()),
            _ => Self::Closed,
        }
    }

    /// Returns whether the proxy wants no more bytes, although it may still send some (RFC 9113 §8.1).
    pub(in crate::proxy::client) fn is_enough(&self) -> bool {
        *self == Self::Reset(Reason::NO_ERROR.into())
    }
}

impl From<Http2Error> for io::Error {
    fn from(error: Http2Error) -> Self {
        let kind = match &error {
            Http2Error::Reset(_) | Http2Error::Rejected => io::ErrorKind::ConnectionReset,
            Http2Error::ConnectionLost(_) | Http2Error::GoneAway => io::ErrorKind::ConnectionAborted,
            Http2Error::Closed => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// Reason why a connection over TCP could not be set up.
#[derive(Debug, thiserror::Error)]
pub(in crate::proxy::client) enum TcpFailure {
    /// No address accepts TCP.
    #[error("TCP failed: {0}")]
    Tcp(io::Error),
    /// There was a connection, but TLS or HTTP/2 failed.
    #[error("there was no HTTP/2: {0}")]
    Later(io::Error),
}

impl TcpFailure {
    /// Creates the failure of a connection by its error in HTTP/2, which also reports those of TLS.
    pub(super) fn http2(error: h2::Error) -> Self {
        let text = error.to_string();
        Self::Later(error.into_io().unwrap_or_else(|| Http2Error::lost(&text).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_meaning() {
        let reset = Http2Error::of_reason(Reason::CONNECT_ERROR);
        assert_eq!(reset, Http2Error::Reset(0xa));
        assert_eq!(io::Error::from(reset.clone()).kind(), io::ErrorKind::ConnectionReset);
        assert!(!reset.is_enough() && Http2Error::of_reason(Reason::NO_ERROR).is_enough());
        assert_eq!(Http2Error::of_reason(Reason::REFUSED_STREAM), Http2Error::Rejected);
        assert_eq!(Http2Error::lost("why").to_string(), "the connection is lost: why");
    }
}
