//! States of a connection (active, closing, draining, drained), and the content of CONNECTION_CLOSE.

use anabranch_wire::{ConnectionClose, Frame, PacketKind, PathId, Time, TransportErrorCode, VarInt};
use bytes::Bytes;

use crate::path::AMPLIFICATION_FACTOR;

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
    /// Bytes of the datagrams received since the close.
    pub(crate) bytes_received: u64,
    /// Bytes of the repeated CONNECTION_CLOSE datagrams, and of the last datagram with one.
    pub(crate) bytes_repeated: u64,
    pub(crate) last_size: u64,
}

impl Closing {
    /// Creates the state of an endpoint that closes the connection. A CONNECTION_CLOSE is due.
    pub(crate) fn new(close: CloseFrame, until: Time) -> Self {
        Self {
            close,
            until,
            owed: true,
            heard_on: None,
            received: 0,
            next_at: 1,
            bytes_received: 0,
            bytes_repeated: 0,
            last_size: 0,
        }
    }

    /// Counts a received datagram. Makes another CONNECTION_CLOSE due after the first datagram, and then each
    /// time after twice as many datagrams as before, but only if the repetitions together have at most three
    /// times the bytes received: the datagrams may be forged (RFC 9000 §10.2.1).
    pub(crate) fn on_datagram(&mut self, len: usize) {
        self.received += 1;
        self.bytes_received += len as u64;
        let affordable = self.bytes_repeated + self.last_size <= self.bytes_received * AMPLIFICATION_FACTOR;
        if self.received >= self.next_at && affordable {
            self.received = 0;
            self.next_at = self.next_at.saturating_mul(2);
            self.owed = true;
        }
    }

    /// Counts a datagram with a CONNECTION_CLOSE that was sent.
    pub(crate) fn on_sent(&mut self, len: usize) {
        if self.last_size > 0 {
            self.bytes_repeated += len as u64;
        }
        self.last_size = len as u64;
    }
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
