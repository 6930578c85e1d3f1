//! Errors, named by blame.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use anabranch_wire::{FrameError, ParameterError, TransportErrorCode};
use bytes::Bytes;

/// The peer broke a rule, or we cannot go on: the connection closes with this code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct TransportError {
    /// Code that goes into CONNECTION_CLOSE (RFC 9000 §20.1).
    pub code: TransportErrorCode,
    /// Type of the frame that caused it, 0 if unknown.
    pub frame_type: u64,
    /// One line for people; goes into CONNECTION_CLOSE as well.
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
    /// This end found a fault in what the peer sent.
    #[error("closed by us: {0}")]
    Transport(#[from] TransportError),
    /// The peer's transport closed the connection.
    #[error("closed by the peer's transport: {0}")]
    PeerTransport(TransportError),
    /// The peer's application closed the connection.
    #[error("closed by the peer's application: code {code}{}", display_reason(reason))]
    PeerApplication {
        /// The application's code.
        code: u64,
        /// The application's words.
        reason: Bytes,
    },
    /// The peer has lost the connection's state (RFC 9000 §10.3).
    #[error("reset by the peer, which no longer knows the connection")]
    Reset,
    /// Nothing was received for the idle timeout (RFC 9000 §10.1), or nothing at all until the handshake had
    /// to be complete.
    #[error("timed out: {0}")]
    TimedOut(Silence),
    /// Client: the host cannot send to the server, or the server's host refuses what is sent, and the server
    /// has never answered. A connection whose server has answered once does not end like this.
    #[error("the server cannot be reached: {0}")]
    Unreachable(Obstacle),
    /// The handshake was not complete within
    /// [`TransportConfig::handshake_timeout`](crate::TransportConfig::handshake_timeout), though the peer has
    /// been heard of.
    #[error("the handshake was not completed in time")]
    HandshakeTimedOut,
    /// The application on this side closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The peer speaks none of the versions offered.
    #[error("the peer speaks none of our QUIC versions")]
    VersionMismatch,
}

/// Facts about a peer from which nothing is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Silence {
    /// Time since the peer was last heard; `None` if it has never answered.
    pub heard: Option<Duration>,
    /// Part of that time during which this host was suspended or this process was stopped; zero if neither.
    pub asleep: Duration,
}

/// A few words for people.
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

/// Reason why datagrams do not reach a server, in the operating system's words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Obstacle {
    /// Its kind, such as [`io::ErrorKind::NetworkUnreachable`] or [`io::ErrorKind::ConnectionRefused`].
    pub kind: io::ErrorKind,
    /// The system's words.
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
    /// Returns whether the connection was lost although neither end wanted to close it: the peer fell silent
    /// after it had answered, or has forgotten the connection. A new connection may well succeed.
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

/// Makes the error of a peer that breaks a rule of the protocol (RFC 9000 §20.1).
pub(crate) fn violation(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
}
