//! Errors, named by blame.

use std::borrow::Cow;

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
    /// An error that no particular frame caused.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, frame_type: 0, reason: reason.into() }
    }

    /// The same error, blamed on a frame of type `frame_type`.
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

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// Nothing was received for the idle timeout (RFC 9000 §10.1).
    #[error("timed out")]
    TimedOut,
    /// The application on this side closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The peer speaks none of the versions offered.
    #[error("the peer speaks none of our QUIC versions")]
    VersionMismatch,
}

fn display_reason(reason: &Bytes) -> String {
    if reason.is_empty() { String::new() } else { format!(", {}", String::from_utf8_lossy(reason)) }
}

impl ConnectionError {
    /// Whether the cause is the TLS certificate (alerts 42 to 49 and 116, RFC 8446 §6.2).
    pub fn is_certificate(&self) -> bool {
        match self {
            Self::Transport(error) | Self::PeerTransport(error) => {
                matches!(error.code.0.checked_sub(0x100), Some(42..=49 | 116))
            }
            _ => false,
        }
    }
}
