//! Errors of tunnels, and of the connection that carries them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anabranch_transport::ConnectionError;
use http::{Response, StatusCode};

use super::fallback::Http2Error;
use super::status::ProxyStatus;
use super::stream::StreamError;
use crate::error::{AttemptError, ConnectError, EndpointError};
use crate::http3;

/// Reason why a tunnel could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// There is no connection to the proxy; the last attempt to connect failed for this reason.
    #[error("no connection to the proxy: {0}")]
    Unavailable(Arc<ConnectFailure>),
    /// The proxy refused the tunnel.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The proxy does not support CONNECT-UDP (RFC 9298), or extended CONNECT (RFC 9220), which that needs.
    #[error("the proxy carries no UDP")]
    NoUdp,
    /// The proxy does not support CONNECT-IP (RFC 9484).
    #[error("the proxy carries no IP packets")]
    NoIp,
    /// [`MAX_WAITING`](super::MAX_WAITING) tunnels wait for a connection already.
    #[error("too many tunnels wait for the proxy")]
    Busy,
    /// The proxy did not respond to the request within this time, or no connection with a free stream existed
    /// within it.
    #[error("the proxy did not respond within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The request failed, or the connection was lost before the proxy responded.
    #[error(transparent)]
    Http3(#[from] http3::Error),
    /// The same, over HTTP/2.
    #[error(transparent)]
    Http2(#[from] Http2Error),
    /// The client was closed.
    #[error("the proxy's client is closed")]
    Closed,
}

/// Reason why a connection to the proxy could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The proxy's name could not be resolved.
    #[error("cannot resolve {host}: {error}")]
    Resolve {
        /// The proxy's host name.
        host: String,
        /// Error of the resolver.
        error: io::Error,
    },
    /// No interface that the path policy allows has a route to the proxy.
    #[error("no network path leads to the proxy")]
    NoPath,
    /// No socket could be bound.
    #[error("cannot bind a UDP socket: {0}")]
    Socket(#[source] EndpointError),
    /// All attempts failed.
    #[error(transparent)]
    Attempts(#[from] AttemptError),
    /// No attempt succeeded within this time.
    #[error("the proxy did not answer on any path within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The server chose another application protocol.
    #[error("the server does not speak HTTP/3")]
    NotHttp3,
    /// UDP does not reach the proxy. TCP does, but TLS or HTTP/2 failed over it.
    #[error("the proxy answers over TCP only, and there the connection fails: {0}")]
    OverTcp(#[source] io::Error),
}

impl ConnectFailure {
    /// Returns whether further attempts are expected to fail until the configuration of the client or of the
    /// server is changed: TLS failed, for instance because the certificate is not trusted, the server does
    /// not support HTTP/3, or the client's configuration cannot be used.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NotHttp3 => true,
            Self::Attempts(AttemptError::NotBegun(error)) => matches!(error, ConnectError::Core(_)),
            Self::Attempts(AttemptError::Handshake(ConnectionError::Transport(error))) => {
                error.code.alert().is_some()
            }
            Self::Attempts(AttemptError::Handshake(ConnectionError::PeerTransport(error))) => {
                error.code.alert().is_some()
            }
            _ => false,
        }
    }
}

impl ConnectFailure {
    /// Returns whether the proxy may be reachable over TCP nevertheless.
    pub(super) fn may_concern_udp(&self) -> bool {
        let Self::Attempts(failure) = self else {
            return matches!(self, Self::TimedOut(_) | Self::Socket(_));
        };
        match failure {
            AttemptError::NotBegun(error) => matches!(error, ConnectError::Socket(_)),
            AttemptError::Handshake(error) => matches!(
                error,
                ConnectionError::TimedOut(_)
                    | ConnectionError::Unreachable(_)
                    | ConnectionError::HandshakeTimedOut
            ),
            AttemptError::NoCandidates => false,
        }
    }
}

/// A proxy's refusal of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Cause in the response's `Proxy-Status` field (RFC 9209), if there is one.
    pub cause: Option<ProxyStatus>,
}

/// Kind of a refusal, which callers translate into replies of SOCKS5, HTTP or another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The proxy requires credentials, or does not accept those of the client.
    Credentials,
    /// The proxy's rules do not allow the target.
    Denied,
    /// The target's name could not be resolved.
    NameNotFound,
    /// The target cannot be reached.
    Unreachable,
    /// The target refused the connection.
    ConnectionRefused,
    /// The target did not respond in time.
    TimedOut,
    /// The user or the proxy has reached a limit, for instance the maximum number of tunnels.
    Limited,
    /// The proxy does not support tunnels of the requested kind.
    Unsupported,
    /// Another reason.
    Other,
}

impl Refusal {
    pub(super) fn of(response: &Response<()>) -> Self {
        Self { status: response.status(), cause: ProxyStatus::of(response.headers()) }
    }

    /// Returns the kind of the refusal. It is [`RefusalKind::Credentials`] for the statuses 401 and 407, and
    /// [`RefusalKind::Limited`] for 429 (Too Many Requests).
    /// Otherwise the error type in `Proxy-Status` determines it or, if there is none or an unknown one, the
    /// response's status.
    pub fn kind(&self) -> RefusalKind {
        let by_status = match self.status.as_u16() {
            401 | 407 => return RefusalKind::Credentials,
            429 => return RefusalKind::Limited,
            403 => RefusalKind::Denied,
            404 | 405 | 501 => RefusalKind::Unsupported,
            503 => RefusalKind::Limited,
            502 => RefusalKind::Unreachable,
            504 => RefusalKind::TimedOut,
            _ => RefusalKind::Other,
        };
        match self.cause.as_ref().map_or("", |cause| cause.error.as_str()) {
            "dns_error" => RefusalKind::NameNotFound,
            "dns_timeout" | "connection_timeout" | "connection_read_timeout" => RefusalKind::TimedOut,
            "destination_ip_prohibited" | "http_request_denied" => RefusalKind::Denied,
            "destination_not_found" | "destination_unavailable" | "destination_ip_unroutable" => {
                RefusalKind::Unreachable
            }
            "connection_refused" => RefusalKind::ConnectionRefused,
            "connection_limit_reached" => RefusalKind::Limited,
            _ => by_status,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the proxy refused with status {}", self.status)?;
        let Some(cause) = &self.cause else { return Ok(()) };
        write!(f, ": {}", cause.error)?;
        cause.details.as_ref().map_or(Ok(()), |details| write!(f, " ({details})"))
    }
}

impl std::error::Error for Refusal {}

impl From<StreamError> for TunnelError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Http3(error) => Self::Http3(error),
            StreamError::Http2(error) => Self::Http2(error),
        }
    }
}

impl From<TunnelError> for io::Error {
    fn from(error: TunnelError) -> Self {
        let kind = match &error {
            TunnelError::Http3(http3::Error::Reset(_) | http3::Error::Stopped(_)) => {
                io::ErrorKind::ConnectionReset
            }
            TunnelError::Http2(Http2Error::Reset(_)) => io::ErrorKind::ConnectionReset,
            TunnelError::Refused(refusal) => match refusal.kind() {
                RefusalKind::Credentials | RefusalKind::Denied => io::ErrorKind::PermissionDenied,
                RefusalKind::NameNotFound => io::ErrorKind::NotFound,
                RefusalKind::Unreachable => io::ErrorKind::HostUnreachable,
                RefusalKind::ConnectionRefused => io::ErrorKind::ConnectionRefused,
                RefusalKind::TimedOut => io::ErrorKind::TimedOut,
                RefusalKind::Limited => io::ErrorKind::QuotaExceeded,
                RefusalKind::Unsupported => io::ErrorKind::Unsupported,
                RefusalKind::Other => io::ErrorKind::Other,
            },
            TunnelError::TimedOut(_) => io::ErrorKind::TimedOut,
            TunnelError::NoUdp | TunnelError::NoIp => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_says_more_than_the_status() {
        let kind = |status: u16, field: &str| {
            let response = Response::builder().status(status).header("proxy-status", field).body(()).unwrap();
            Refusal::of(&response).kind()
        };
        for (status, field, expected) in [
            (407, "p; error=http_request_denied", RefusalKind::Credentials),
            (401, "", RefusalKind::Credentials),
            (429, "p; error=http_request_denied", RefusalKind::Limited),
            (502, "p; error=connection_refused", RefusalKind::ConnectionRefused),
            (502, "p; error=dns_error", RefusalKind::NameNotFound),
            (504, "p; error=connection_timeout", RefusalKind::TimedOut),
            (403, "p; error=destination_ip_prohibited", RefusalKind::Denied),
            (503, "p; error=connection_limit_reached", RefusalKind::Limited),
            (502, "p; error=destination_ip_unroutable", RefusalKind::Unreachable),
            (404, "", RefusalKind::Unsupported),
            (502, "p; error=new_error", RefusalKind::Unreachable),
            (500, "", RefusalKind::Other),
        ] {
            assert_eq!(kind(status, field), expected, "{status} {field}");
        }
        let response = Response::builder()
            .status(502)
            .header("proxy-status", "p; error=dns_error; details=\"no such name\"")
            .body(())
            .unwrap();
        assert_eq!(
            Refusal::of(&response).to_string(),
            "the proxy refused with status 502 Bad Gateway: dns_error (no such name)"
        );
    }
}
