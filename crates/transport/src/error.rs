//! Errors of connections. Each variant names the party that caused it.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use anabranch_wire::{FrameError, ParameterError, TransportErrorCode, VarInt};
use bytes::Bytes;

/// Error that closes the connection with `code`: the peer violated the protocol, or this endpoint failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
#[non_exhaustive]
pub struct TransportError {
    /// Error code of the CONNECTION_CLOSE frame (RFC 9000 §20.1).
    pub code: TransportErrorCode,
    /// Type of the frame that caused the error; 0 if unknown.
    pub frame_type: u64,
    /// Reason phrase of the CONNECTION_CLOSE frame; one line.
    pub reason: Cow<'static, str>,
}

impl TransportError {
    /// Creates an error that no particular frame caused.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, frame_type: 0, reason: reason.into() }
    }

    /// Returns the same error, attributed to a frame of type `frame_type`.
    #[must_use]
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = frame_type;
        self
    }
}

impl From<FrameError> for TransportError {
    fn from(error: FrameError) -> Self {
        Self::new(error.code, error.reason).in_frame(error.frame_type)
    }
}

impl From<ParameterError> for TransportError {
    fn from(error: ParameterError) -> Self {
        Self::new(error.code, error.reason)
    }
}

/// Reasons why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This endpoint detected an error, usually a violation by the peer.
    #[error("closed by us: {0}")]
    Transport(#[from] TransportError),
    /// The peer's transport closed the connection.
    #[error("closed by the peer's transport: {0}")]
    PeerTransport(TransportError),
    /// The peer's application closed the connection.
    #[error("closed by the peer's application: code {code}{}", display_reason(reason))]
    PeerApplication {
        /// The application's error code.
        code: VarInt,
        /// Reason phrase of the peer's application.
        reason: Bytes,
    },
    /// The peer has lost the connection's state (RFC 9000 §10.3).
    #[error("reset by the peer, which no longer knows the connection")]
    Reset,
    /// Nothing was received during the idle timeout (RFC 9000 §10.1), or no packet at all arrived within the
    /// time allowed for the handshake.
    #[error("timed out: {0}")]
    TimedOut(Silence),
    /// Client: this host cannot send to the server, or the server's host refuses the datagrams, and no packet
    /// of the server has ever arrived. Once one has arrived, a connection no longer ends with this error.
    #[error("the server cannot be reached: {0}")]
    Unreachable(Obstacle),
    /// The handshake was not complete within
    /// [`TransportConfig::handshake_timeout`](crate::TransportConfig::handshake_timeout), although packets of
    /// the peer have arrived.
    #[error("the handshake was not completed in time")]
    HandshakeTimedOut,
    /// The application on this endpoint closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The peer supports none of the offered versions.
    #[error("the peer speaks none of our QUIC versions")]
    VersionMismatch,
}

/// Length of the silence before a connection timed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Silence {
    /// Time since the last packet from the peer; `None` if none has ever arrived.
    pub heard: Option<Duration>,
    /// Part of `heard` during which this host was suspended or this process was stopped; zero if neither.
    pub asleep: Duration,
}

/// Formats the silence for people.
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.heard {
            None => f.write_str("the peer has never answered")?,
            Some(ago) => write!(f, "the peer answered until {:.1} s ago", ago.as_secs_f64())?,
        }
        match self.asleep {
            Duration::ZERO => Ok(()),
            asleep => write!(f, ", this end was asleep for {:.1} s", asleep.as_secs_f64()),
        }
    }
}

/// Reason why datagrams do not reach a server, as the operating system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Obstacle {
    /// Kind of the error, such as [`io::ErrorKind::NetworkUnreachable`] or
    /// [`io::ErrorKind::ConnectionRefused`].
    pub kind: io::ErrorKind,
    /// Error message of the operating system.
    pub words: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<&io::Error> for Obstacle {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), words: error.to_string() }
    }
}

fn display_reason(reason: &Bytes) -> String {
    if reason.is_empty() { String::new() } else { format!(", {}", String::from_utf8_lossy(reason)) }
}

impl ConnectionError {
    /// Returns whether the connection was lost although neither endpoint closed it: the peer stopped
    /// responding, or it has lost the connection's state. A new connection may well succeed.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::TimedOut(silence) => silence.heard.is_some(),
            Self::Reset => true,
            _ => false,
        }
    }

    /// Returns whether the cause is the TLS certificate (alerts 42 to 49 and 116, RFC 8446 §6.2).
    pub fn is_certificate(&self) -> bool {
        match self {
            Self::Transport(error) | Self::PeerTransport(error) => {
                matches!(error.code.0.checked_sub(0x100), Some(42..=49 | 116))
            }
            _ => false,
        }
    }
}

/// Creates the error for a peer that violates the protocol (RFC 9000 §20.1).
pub(crate) fn violation(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
}
