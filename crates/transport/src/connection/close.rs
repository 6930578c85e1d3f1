//! End of a connection: closing, draining, stateless reset (RFC 9000 §10).

use anabranch_wire::{ConnectionClose, PacketKind, PathId, SpaceId, Time, TransportErrorCode, VarInt};
use bytes::Bytes;

use crate::connection::connection::Connection;
use crate::connection::parts::{CloseFrame, Closing, State};
use crate::datagram_io::FourTuple;
use crate::error::{ConnectionError, TransportError};
use crate::event::{EndpointEvent, Event};
use crate::trace::TraceEvent;

impl Connection {
    /// Closes the connection immediately with the application's code and reason (RFC 9000 §10.2). Queued data
    /// is discarded. To deliver it, finish the streams and wait for their acknowledgment first.
    pub fn close(&mut self, now: Time, code: VarInt, reason: Bytes) {
        let close = CloseFrame { application: true, code, frame_type: 0, reason };
        self.begin_closing(now, close, ConnectionError::LocallyClosed);
    }

    pub(super) fn close_with_error(&mut self, now: Time, error: TransportError) {
        let close = CloseFrame {
            application: false,
            code: error.code.into(),
            frame_type: error.frame_type,
            reason: Bytes::copy_from_slice(error.reason.as_bytes()),
        };
        self.begin_closing(now, close, ConnectionError::Transport(error));
    }

    fn begin_closing(&mut self, now: Time, close: CloseFrame, error: ConnectionError) {
        if !self.state.is_active() {
            return;
        }
        let until = now + self.paths.close_period();
        self.state = State::Closing(Box::new(Closing::new(close, until)));
        self.report_end(now, error);
    }

    /// Closes the connection with `error`. CONNECTION_CLOSE is sent to the addresses `tuple` of the packet
    /// that caused the error, because this endpoint may have no better path. The packet was invalid, or it
    /// contained the peer's PATH_ABANDON of the last path.
    pub(super) fn fail_towards(&mut self, now: Time, error: TransportError, tuple: &FourTuple) {
        self.fail(now, error);
        if let State::Closing(closing) = &mut self.state {
            closing.heard_on = self.paths.list.by_tuple(tuple);
        }
    }

    /// Handles the peer's CONNECTION_CLOSE (RFC 9000 §10.2.2).
    pub(super) fn on_peer_close(&mut self, now: Time, path: PathId, close: &ConnectionClose<'_>) {
        let error = if close.application {
            ConnectionError::PeerApplication {
                code: close.code,
                reason: Bytes::copy_from_slice(close.reason),
            }
        } else {
            let reason = String::from_utf8_lossy(close.reason).into_owned();
            let error = TransportError::new(TransportErrorCode::from(close.code), reason);
            ConnectionError::PeerTransport(error.in_frame(close.frame_type))
        };
        self.drain(now, Some(path), error);
    }

    /// Handles a stateless reset (RFC 9000 §10.3.1).
    pub fn handle_reset(&mut self, now: Time) {
        self.drain(now, None, ConnectionError::Reset);
    }

    fn drain(&mut self, now: Time, answer: Option<PathId>, error: ConnectionError) {
        match self.state {
            State::Active => {
                // No response is sent before the handshake is complete. The peer may have kept no state for
                // this connection, and could take the response for a packet of another connection.
                let answer = answer.filter(|_| self.handshake.progress.complete);
                self.state = State::Draining { until: now + self.paths.close_period(), answer };
                self.report_end(now, error);
            }
            State::Closing(ref closing) => {
                self.state = State::Draining { until: closing.until, answer: None };
            }
            State::Draining { .. } | State::Drained => {}
        }
    }

    /// Ends the connection without notifying the peer, for instance after the idle timeout.
    pub(super) fn end_silently(&mut self, now: Time, error: ConnectionError) {
        if self.state.is_active() {
            self.report_end(now, error);
        }
        self.become_drained();
    }

    pub(super) fn become_drained(&mut self) {
        if !self.state.is_over() {
            self.state = State::Drained;
            self.output.endpoint_events.push_back(EndpointEvent::Drained);
        }
    }

    fn report_end(&mut self, now: Time, error: ConnectionError) {
        self.trace(now, &TraceEvent::Closed { error: &error });
        // A closing connection keeps almost no memory.
        self.keys.undecrypted.clear();
        self.handshake.session = None;
        self.output.events.push_back(Event::Closed(error));
    }

    /// Returns the path of the CONNECTION_CLOSE to send now, if one is known; `None` if none is due.
    pub(super) fn path_of_close(&self) -> Option<Option<PathId>> {
        match &self.state {
            State::Closing(closing) => Some(closing.heard_on),
            State::Draining { answer, .. } => answer.map(Some),
            State::Active | State::Drained => None,
        }
    }

    /// Returns the CONNECTION_CLOSE to send now, which is not due any longer.
    pub(super) fn take_close(&mut self) -> Option<CloseFrame> {
        match &mut self.state {
            State::Closing(closing) => {
                closing.owed = false;
                Some(closing.close.clone())
            }
            State::Draining { answer, .. } => answer.take().map(|_| CloseFrame::in_return()),
            State::Active | State::Drained => None,
        }
    }

    /// Handles a datagram of `len` bytes that arrives while closing. Another CONNECTION_CLOSE may become due.
    pub(super) fn on_datagram_while_closing(&mut self, path: Option<PathId>, len: usize) {
        if let State::Closing(closing) = &mut self.state {
            closing.heard_on = path.or(closing.heard_on);
            closing.on_datagram(len);
        }
    }

    /// Counts a datagram with a CONNECTION_CLOSE that was sent.
    pub(super) fn on_close_sent(&mut self, len: usize) {
        if let State::Closing(closing) = &mut self.state {
            closing.on_sent(len);
        }
    }

    /// Returns the packet types that must carry CONNECTION_CLOSE so that the peer can decrypt at least one
    /// (RFC 9000 §10.2.3).
    pub(super) fn close_kinds(&self) -> impl Iterator<Item = (SpaceId, PacketKind)> {
        let confirmed = self.handshake.progress.confirmed;
        let data = if self.keys.one_rtt.is_some() { PacketKind::OneRtt } else { PacketKind::ZeroRtt };
        [
            (SpaceId::Initial, PacketKind::Initial),
            (SpaceId::Handshake, PacketKind::Handshake),
            (SpaceId::Data, data),
        ]
        .into_iter()
        .filter(move |(space, _)| *space == SpaceId::Data || !confirmed)
    }

    /// Returns whether a CONNECTION_CLOSE is due: the first one, or one in response to a later datagram.
    pub fn owes_close(&self) -> bool {
        match &self.state {
            State::Closing(closing) => closing.owed,
            State::Draining { answer, .. } => answer.is_some(),
            State::Active | State::Drained => false,
        }
    }

    /// Returns whether the connection has ended. Its state may be kept for a while.
    pub fn is_closed(&self) -> bool {
        !self.state.is_active()
    }

    /// Returns whether the connection has drained and may be dropped.
    pub fn is_drained(&self) -> bool {
        self.state.is_over()
    }
}
