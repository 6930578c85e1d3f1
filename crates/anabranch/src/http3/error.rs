//! Errors of HTTP/3 requests and connections.

use std::io;

use anabranch_http3::message::InvalidMessage;
use anabranch_http3::{self as h3, Code, ReadError, RequestError, WriteError};
use anabranch_transport::ConnectionError;

use crate::error::ConnectError;

/// Reason why a request, its response or its connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request's URL is not an https URL with a host.
    #[error("cannot request {url}: {reason}")]
    Url {
        /// URL that the application requested.
        url: String,
        /// Fault of the URL.
        reason: &'static str,
    },
    /// The host name has no address that the endpoint can reach.
    #[error("cannot find the address of {host}: {error}")]
    Resolve {
        /// The host.
        host: String,
        /// Error of the resolver.
        error: io::Error,
    },
    /// A connection attempt could not be started.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server chose another application protocol than `h3`.
    #[error("the server does not speak HTTP/3")]
    NotHttp3,
    /// The connection was lost, or its handshake failed.
    #[error("the connection is lost: {0}")]
    ConnectionLost(#[source] ConnectionError),
    /// The peer violated HTTP/3, and the connection was closed with an error.
    #[error("the peer violates HTTP/3: {0}")]
    Protocol(#[source] h3::Error),
    /// The server did not process the request, so it may be sent again.
    #[error("rejected by the server before it was processed")]
    Rejected,
    /// The peer reset the stream (RESET_STREAM).
    #[error("reset by the peer: {0}")]
    Reset(Code),
    /// The peer stopped the stream (STOP_SENDING): it will not read the rest of the message.
    #[error("stopped by the peer: {0}")]
    Stopped(Code),
    /// The peer's message is malformed; its stream was closed with this code.
    #[error("malformed message: {0}")]
    Malformed(Code),
    /// The application's message cannot be sent over HTTP/3.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// The body that the application supplied returned an error.
    #[error("the body failed: {0}")]
    Body(#[source] crate::Error),
    /// The peer sends or reads more slowly than [`Limits`](super::Limits) allows.
    #[error("the peer is too slow")]
    TooSlow,
    /// The body is longer than the caller allows.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// This endpoint has finished, stopped or reset the stream before.
    #[error("the stream is closed")]
    Closed,
}

impl Error {
    /// Returns whether it is certain that the server did not process the request, so that it can be sent
    /// again safely (RFC 9114 §4.1.1).
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Rejected)
    }

    /// Returns the error code that the peer sent, or that this endpoint sent.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Reset(code) | Self::Stopped(code) | Self::Malformed(code) => Some(*code),
            Self::Protocol(fault) => Some(fault.code),
            Self::Rejected => Some(Code::REQUEST_REJECTED),
            Self::ConnectionLost(ConnectionError::PeerApplication { code, .. }) => Some(Code::from(*code)),
            _ => None,
        }
    }

    /// Returns whether the connection ended without an error: it timed out, this endpoint closed it, or the
    /// peer closed it with H3_NO_ERROR or an unknown code, for instance 0.
    pub(super) fn is_farewell(&self) -> bool {
        match self {
            Self::ConnectionLost(ConnectionError::LocallyClosed | ConnectionError::TimedOut(_)) => true,
            Self::ConnectionLost(ConnectionError::PeerApplication { code, .. }) => {
                is_no_error(Code::from(*code))
            }
            _ => false,
        }
    }
}

/// Returns whether a code is H3_NO_ERROR, or an unknown one, which means the same (RFC 9114 §8).
pub(crate) fn is_no_error(code: Code) -> bool {
    code == Code::NO_ERROR || code.name().is_none()
}

/// Converts an error of reading; `None` at the end of the stream, and if nothing can be read yet.
pub(super) fn read_error(error: ReadError) -> Option<Error> {
    match error {
        ReadError::Blocked | ReadError::Finished => None,
        ReadError::Reset(code) => Some(Error::Reset(code)),
        ReadError::Malformed(code) => Some(Error::Malformed(code)),
        ReadError::Rejected => Some(Error::Rejected),
        _ => Some(Error::Closed),
    }
}

/// Converts an error of writing; `None` if writing must wait.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn write_error(error: WriteError) -> Option<Error> {
    match error {
        WriteError::Blocked => None,
        WriteError::Stopped(code) => Some(Error::Stopped(code)),
        WriteError::Invalid(invalid) => Some(Error::Invalid(invalid)),
        _ => Some(Error::Closed),
    }
}

/// Converts an error of a request; `None` if the request must wait.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn request_error(error: RequestError) -> Option<Error> {
    match error {
        RequestError::Blocked => None,
        RequestError::GoingAway => Some(Error::Rejected),
        RequestError::Invalid(invalid) => Some(Error::Invalid(invalid)),
        _ => Some(Error::Closed),
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Reset(_) | Error::Rejected => io::ErrorKind::ConnectionReset,
            Error::Stopped(_) => io::ErrorKind::BrokenPipe,
            Error::ConnectionLost(ConnectionError::TimedOut(_)) | Error::TooSlow => io::ErrorKind::TimedOut,
            Error::ConnectionLost(_) | Error::Closed => io::ErrorKind::NotConnected,
            Error::Malformed(_) | Error::Protocol(_) | Error::NotHttp3 | Error::TooLong(_) => {
                io::ErrorKind::InvalidData
            }
            Error::Url { .. } | Error::Invalid(_) => io::ErrorKind::InvalidInput,
            Error::Connect(_) | Error::Resolve { .. } | Error::Body(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
