//! States of a connection (active, closing, draining, drained), and the content of CONNECTION_CLOSE.

use anabranch_wire::{ConnectionClose, Frame, PacketKind, PathId, Time, TransportErrorCode, VarInt};
use bytes::Bytes;

/// Maximum length of a reason phrase in CONNECTION_CLOSE, in bytes.
const MAX_REASON: usize = 256;

/// Stage of a connection's life.
#[derive(Debug)]
pub(crate) enum State {
    /// The handshake is in progress or complete.
    Active,
    /// This endpoint has closed the connection. It repeats CONNECTION_CLOSE if the peer continues to send.
    Closing(Box<Closing>),
    /// The peer has closed the connection. After one response nothing is sent until the deadline.
    Draining {
        /// Time at which the state may be dropped.
        until: Time,
        /// Path on which the single CONNECTION_CLOSE in response is to be sent (RFC 9000 §10.2.2).
        answer: Option<PathId>,
    },
    /// The connection has ended.
    Drained,
}

/// The closing state (RFC 9000 §10.2.1).
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) close: CloseFrame,
    pub(crate) until: Time,
    /// `true` if a CONNECTION_CLOSE is due.
    pub(crate) owed: bool,
    /// Path on which the last datagram after the close arrived. Until one arrives, it is the path of the
    /// packet that caused the close; `None` if unknown.
    pub(crate) heard_on: Option<PathId>,
    /// Number of datagrams received since the last CONNECTION_CLOSE, and the number at which the next one is
    /// due.
    pub(crate) received: u64,
    pub(crate) next_at: u64,
}

/// Content of a CONNECTION_CLOSE frame.
#[derive(Clone, Debug)]
pub(crate) struct CloseFrame {
    pub(crate) application: bool,
    pub(crate) code: VarInt,
    pub(crate) frame_type: u64,
    pub(crate) reason: Bytes,
}

impl CloseFrame {
    /// Returns the frame for a packet of `kind`. Initial and Handshake packets omit the application's code
    /// and reason, which must not be revealed to the network (RFC 9000 §10.2.3).
    pub(crate) fn frame(&self, kind: PacketKind) -> Frame<'_> {
        let early = !matches!(kind, PacketKind::OneRtt | PacketKind::ZeroRtt);
        Frame::ConnectionClose(if self.application && early {
            ConnectionClose {
                application: false,
                code: TransportErrorCode::APPLICATION_ERROR.into(),
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

    /// Creates the response to the peer's CONNECTION_CLOSE.
    pub(crate) fn in_return() -> Self {
        let code = VarInt::from(TransportErrorCode::NO_ERROR);
        Self { application: false, code, frame_type: 0, reason: Bytes::new() }
    }
}

impl State {
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Active)
    }

    /// Returns the time at which the state of a closing or draining connection may be dropped; `None` in the
    /// other states.
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
