//! HTTP datagrams (RFC 9297) of a session: sends them in DATAGRAM frames, and queues received ones for their
//! requests.

use std::collections::VecDeque;

use anabranch_transport::datagram::{Datagrams, SendDatagramError, Terms};
use anabranch_transport::stream::Streams;
use anabranch_wire::{Dir, PathId, StreamId, Time};
use bytes::Bytes;
use http::Method;

use super::Session;
use super::outgoing::Sending;
use super::request::Request;
use super::types::Event;
use crate::datagram::{datagram_overhead, decode_datagram, encode_datagram};
use crate::error::{Code, Error};
use crate::trace::TraceEvent;

/// Maximum number of received datagrams that are queued for a request: those of 12 ms at 350 Mbit/s. When it is exceeded, the
/// oldest is dropped.
const MAX_WAITING_DATAGRAMS: usize = 512;
/// Maximum memory of the queued datagrams of all requests together, in bytes. Further datagrams are dropped
/// on arrival.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

impl Session {
    /// Handles received DATAGRAM frames.
    pub fn on_datagrams(&mut self, streams: &mut Streams, datagrams: &mut Datagrams) {
        let max_requests = streams.remote_limit(Dir::Bi);
        while let Some((path, datagram)) = datagrams.recv_from() {
            if !self.config.h3_datagram {
                let reason = "a datagram although SETTINGS_H3_DATAGRAM was not sent";
                return self.note(Err(Error::new(Code::DATAGRAM_ERROR, reason)));
            }
            match decode_datagram(datagram) {
                // RFC 9297 §2.1: the stream ID is above the limit that the client was given.
                Ok((id, _)) if self.side.is_server() && id.index() >= max_requests => {
                    let reason = "a datagram of a request beyond the limit";
                    return self.note(Err(Error::new(Code::ID_ERROR, reason)));
                }
                Ok((id, payload)) => self.on_datagram(streams, id, path, payload),
                Err(error) => return self.note(Err(error)),
            }
        }
    }

    fn on_datagram(&mut self, streams: &mut Streams, id: StreamId, path: PathId, payload: Bytes) {
        // A datagram that arrives before its request or after the request's end is dropped, as RFC 9297 §2.1
        // permits.
        let request = self.requests.get_mut(&id).filter(|request| request.incoming.end.is_none());
        let Some(request) = request else { return };
        self.qpack.trace.event(&TraceEvent::Datagram { id, local: false, len: payload.len() });
        // A server does not know the method before the header section, which may arrive later.
        let is_known = self.side.is_client() || request.is_delivered;
        if is_known && !takes_datagrams(&request.method) {
            return self.fail(streams, id, Code::DATAGRAM_ERROR);
        }
        if request.datagrams.len() >= MAX_WAITING_DATAGRAMS
            && let Some((_, oldest)) = request.datagrams.pop_front()
        {
            self.waiting_bytes -= cost(&oldest);
        }
        if self.waiting_bytes + cost(&payload) <= MAX_WAITING_BYTES {
            self.waiting_bytes += cost(&payload);
            request.datagrams.push_back((path, payload));
            self.events.push_back(Event::Datagram(id));
        }
    }

    /// Removes and returns the next received datagram of this request.
    pub fn recv_datagram(&mut self, id: StreamId) -> Option<Bytes> {
        self.recv_datagram_from(id).map(|(_, payload)| payload)
    }

    /// Removes and returns the next received datagram of this request like [`Self::recv_datagram`], with the path on which it
    /// arrived.
    pub fn recv_datagram_from(&mut self, id: StreamId) -> Option<(PathId, Bytes)> {
        let datagrams = &mut self.requests.get_mut(&id)?.datagrams;
        let (path, payload) = datagrams.pop_front()?;
        if datagrams.is_empty() {
            // An idle request keeps no memory allocated.
            *datagrams = VecDeque::new();
        }
        self.waiting_bytes -= cost(&payload);
        Some((path, payload))
    }

    /// Removes a request with its queued datagrams.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        self.waiting_bytes -= request.datagrams.iter().map(|(_, payload)| cost(payload)).sum::<usize>();
        Some(request)
    }

    /// Sends an HTTP datagram for this request, as one of a flow that is the request's own. The datagram may be lost. It is
    /// dropped if the sending half of the request's stream is closed (RFC 9297 §2.1).
    ///
    /// # Errors
    /// Fails if the peer does not support datagrams, or does not for the request's method, if the payload is too large, or if
    /// the queue is full.
    pub fn send_datagram(
        &mut self,
        datagrams: &mut Datagrams,
        id: StreamId,
        payload: &[u8],
    ) -> Result<(), SendDatagramError> {
        self.send_datagram_with(Time::ZERO, datagrams, id, payload, &Terms::default())
    }

    /// Sends an HTTP datagram like [`Self::send_datagram`], on these terms. Flows of different requests are different
    /// ones.
    ///
    /// # Errors
    /// Fails as [`Self::send_datagram`] does.
    pub fn send_datagram_with(
        &mut self,
        now: Time,
        datagrams: &mut Datagrams,
        id: StreamId,
        payload: &[u8],
        terms: &Terms,
    ) -> Result<(), SendDatagramError> {
        if !self.takes_datagrams() {
            return Err(SendDatagramError::UnsupportedByPeer);
        }
        let Some(request) = self.requests.get(&id) else { return Ok(()) };
        if !takes_datagrams(&request.method) {
            return Err(SendDatagramError::UnsupportedByPeer);
        }
        if request.outgoing.state == Sending::Over {
            return Ok(());
        }
        let flow = terms.flow().map_or(id.index(), |own| id.index().rotate_left(32) ^ own);
        datagrams.send_with(now, encode_datagram(id, payload), &terms.with_flow(flow))?;
        self.qpack.trace.event(&TraceEvent::Datagram { id, local: true, len: payload.len() });
        Ok(())
    }

    /// Returns the current maximum length of a payload for [`Self::send_datagram`]; `None` if the peer does
    /// not support datagrams, or if the request's method has none.
    pub fn max_datagram_len(&self, datagrams: &Datagrams, id: StreamId) -> Option<usize> {
        let has_datagrams = self.requests.get(&id).is_none_or(|request| takes_datagrams(&request.method));
        let len = datagrams.max_len().filter(|_| self.takes_datagrams() && has_datagrams)?;
        len.checked_sub(datagram_overhead(id))
    }

    /// Returns whether both endpoints have announced datagrams in their SETTINGS (RFC 9297 §2.1.1).
    fn takes_datagrams(&self) -> bool {
        self.config.h3_datagram
            && self.unidirectional.has_sent_settings()
            && self.peer_settings.as_ref().is_some_and(|settings| settings.h3_datagram)
    }
}

/// Returns whether requests with this method can have HTTP datagrams. Those of all other methods have none, and one that
/// arrives nevertheless ends the request (RFC 9297 §2). What the datagrams of a CONNECT request mean is the application's
/// matter.
pub(super) fn takes_datagrams(method: &Method) -> bool {
    method == Method::CONNECT
}

/// Returns the memory that a queued datagram occupies, in bytes.
fn cost(payload: &Bytes) -> usize {
    payload.len() + size_of::<(PathId, Bytes)>()
}
