//! State of a connection that has ended or is about to, and the frame that says so.

use anabranch_wire::{ConnectionClose, Frame, PacketKind, PathId, Time, TransportErrorCode};
use bytes::Bytes;

/// Longest reason phrase that goes into CONNECTION_CLOSE.
const MAX_REASON: usize = 256;

/// Stage in the life of a connection.
#[derive(Debug)]
pub(crate) enum State {
    /// Handshaking or established.
    Active,
    /// This end closed and repeats its CONNECTION_CLOSE when the peer goes on sending.
    Closing(Box<Closing>),
    /// The peer closed: after an answer nothing is sent until the deadline.
    Draining {
        /// Time at which the state may be dropped.
        until: Time,
        /// The path on which the one CONNECTION_CLOSE in return is to leave (RFC 9000 §10.2.2).
        answer: Option<PathId>,
    },
    /// Over.
    Drained,
}

/// The closing state (RFC 9000 §10.2.1).
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) close: CloseFrame,
    pub(crate) until: Time,
    /// A CONNECTION_CLOSE is to be sent.
    pub(crate) owed: bool,
    /// The path that the peer was last heard on, once it has been heard after the end, or was the reason for
    /// it.
    pub(crate) heard_on: Option<PathId>,
    /// Datagrams received since the last one was sent, and how many ask for the next.
    pub(crate) received: u64,
    pub(crate) next_at: u64,
}

/// Content of a CONNECTION_CLOSE frame.
#[derive(Clone, Debug)]
pub(crate) struct CloseFrame {
    pub(crate) application: bool,
    pub(crate) code: u64,
    pub(crate) frame_type: u64,
    pub(crate) reason: Bytes,
}

impl CloseFrame {
    /// Returns the frame for a packet of `kind`. Before 1-RTT, the application's words are not shown to the
    /// network (RFC 9000 §10.2.3).
    pub(crate) fn frame(&self, kind: PacketKind) -> Frame<'_> {
        let early = !matches!(kind, PacketKind::OneRtt | PacketKind::ZeroRtt);
        Frame::ConnectionClose(if self.application && early {
            ConnectionClose {
                application: false,
                code: TransportErrorCode::APPLICATION_ERROR.0,
                frame_type: 0,
                reason: &[],
            }
        } else {
            ConnectionClose {
                application: self.application,
                code: self.code,
                frame_type: self.frame_type,
                reason: &self.reason[..self.reason.len().min(MAX_REASON)],
            }
        })
    }

    /// Creates the answer to the peer's.
    pub(crate) fn in_return() -> Self {
        let code = TransportErrorCode::NO_ERROR.0;
        Self { application: false, code, frame_type: 0, reason: Bytes::new() }
    }
}

impl State {
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Active)
    }

    /// Returns the time at which the state of an ended connection may be dropped; `None` before its end and
    /// after that.
    pub(crate) fn until(&self) -> Option<Time> {
        match self {
            Self::Closing(closing) => Some(closing.until),
            Self::Draining { until, .. } => Some(*until),
            Self::Active | Self::Drained => None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Drained)
    }
}
