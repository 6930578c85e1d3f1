//! Reading of the peer's messages: header sections, content and trailers.

use anabranch_transport::stream::{self, Streams};
use anabranch_wire::StreamId;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::datagram::takes_datagrams;
use super::incoming::{Context, Phase, Progress};
use super::outgoing::Sending;
use super::qpack::Section;
use super::request::{Request, may_have_content};
use super::types::{Event, Fault, ReadError};
use super::{MAX_EARLY_RESETS, Session};
use crate::error::{Code, Error};
use crate::message::{FieldGatherer, Malformed, Protocol, content_length};
use crate::priority::Priority;

impl Session {
    /// Returns the header section of the next request, with the request's ID; for servers. The ID is needed
    /// to read the content and to respond. The application must [`release`](Self::release) the request in the
    /// end.
    pub fn accept(&mut self) -> Option<(StreamId, http::request::Parts)> {
        while let Some((id, parts)) = self.ready.pop_front() {
            if let Some(request) = self.requests.get_mut(&id) {
                request.is_accepted = true;
                return Some((id, parts));
            }
        }
        None
    }

    /// Returns the next header section of the response: interim responses (1xx) first, then the final
    /// response; for clients.
    pub fn response(&mut self, id: StreamId) -> Option<http::response::Parts> {
        self.requests.get_mut(&id)?.heads.pop()
    }

    /// Returns the trailers. They are available once reading the content has returned
    /// [`ReadError::Finished`].
    pub fn trailers(&mut self, id: StreamId) -> Option<HeaderMap> {
        self.requests.get_mut(&id)?.trailers.take()
    }

    /// Returns the reason that nothing more of the peer's message can be read; `None` if there may be more.
    pub fn read_end(&self, id: StreamId) -> Option<ReadError> {
        self.requests.get(&id).map_or(Some(ReadError::Closed), |request| request.incoming.end)
    }

    /// Returns whether the peer's message has ended and there are no unread trailers. If this is so before
    /// any content was read, the message consists of a header section only.
    pub fn is_read_to_end(&self, id: StreamId) -> bool {
        let request = self.requests.get(&id);
        request.is_some_and(|request| {
            request.incoming.end == Some(ReadError::Finished) && request.trailers.is_none()
        })
    }

    /// Borrows the next bytes of the content from the transport's buffer. They are never empty, but may not
    /// be all that have arrived.
    ///
    /// # Errors
    /// Fails if no bytes are available, see [`ReadError`].
    pub fn peek<'s>(&mut self, streams: &'s mut Streams, id: StreamId) -> Result<&'s [u8], ReadError> {
        let left = self.read_body(streams, id)?;
        let bytes = streams.peek(id).unwrap_or_default();
        Ok(&bytes[..bytes.len().min(left)])
    }

    /// Consumes `n` of the borrowed bytes.
    pub fn consume(&mut self, streams: &mut Streams, id: StreamId, n: usize) {
        if let Some(request) = self.requests.get_mut(&id) {
            let n = n.min(request.incoming.left_in_frame());
            if streams.consume(id, n).is_ok() {
                request.incoming.on_read(n);
            }
        }
    }

    /// Returns the next bytes of the content without copying them: at most `max`, and at least one unless
    /// `max` is 0.
    ///
    /// # Errors
    /// Fails if no bytes are available, see [`ReadError`].
    pub fn take(&mut self, streams: &mut Streams, id: StreamId, max: usize) -> Result<Bytes, ReadError> {
        let left = self.read_body(streams, id)?;
        let bytes = streams.take(id, max.min(left)).unwrap_or_default();
        if let Some(request) = self.requests.get_mut(&id) {
            request.incoming.on_read(bytes.len());
        }
        Ok(bytes)
    }

    /// Reads up to the next byte of the content. Returns the number of unread bytes in its DATA frame.
    fn read_body(&mut self, streams: &mut Streams, id: StreamId) -> Result<usize, ReadError> {
        let progress = self.read(streams, id);
        let flushed = self.qpack.flush_decoder_if_due(streams);
        self.note(flushed);
        let request = self.requests.get(&id).ok_or(ReadError::Closed)?;
        match progress {
            Progress::Body if request.incoming.phase != Phase::Head => Ok(request.incoming.left_in_frame()),
            Progress::End => Err(request.incoming.end.unwrap_or(ReadError::Closed)),
            _ => Err(ReadError::Blocked),
        }
    }

    /// Stops reading the peer's message (STOP_SENDING), because the application does not need the rest.
    pub fn stop(&mut self, streams: &mut Streams, id: StreamId, code: Code) {
        if let Some(request) = self.requests.get_mut(&id)
            && request.incoming.end.is_none()
        {
            request.incoming.abandon(&mut self.qpack, id, ReadError::Closed);
            // Fails if the whole message has arrived already; there is nothing to stop then.
            let _ = streams.stop(id, code.into());
            let flushed = self.qpack.flush_decoder_if_due(streams);
            self.note(flushed);
        }
    }

    /// Handles a stream that the client has opened; for servers.
    pub(super) fn on_request_opened(&mut self, streams: &mut Streams, id: StreamId) {
        self.next_request = self.next_request.max(StreamId::from_u64(id.as_u64() + 4));
        if self.goaway_sent.is_some_and(|first| id >= first) {
            let code = Code::REQUEST_REJECTED.into();
            // Cannot fail, because the stream was just opened.
            let _ = (streams.stop(id, code), streams.reset(id, code));
            self.early_priorities.remove(&id);
            self.qpack.cancel(id);
            return self.count_early_reset();
        }
        let mut request = Request::new(Method::GET);
        request.priority = self.early_priorities.remove(&id);
        self.requests.insert(id, request);
        self.on_request_readable(streams, id);
    }

    pub(super) fn on_request_readable(&mut self, streams: &mut Streams, id: StreamId) {
        let Some(request) = self.requests.get(&id) else { return };
        if request.is_released {
            return;
        }
        if request.is_delivered && request.is_accepted {
            // The application continues to read when it handles the event.
            self.events.push_back(Event::Readable(id));
            return;
        }
        if let Progress::End = self.read(streams, id)
            && let Some(request) = self.requests.get(&id)
            && !request.is_released
        {
            match request.incoming.end {
                // The application was already informed of a malformed message.
                None | Some(ReadError::Finished | ReadError::Malformed(_)) => {}
                // The application does not know a request that failed before it was accepted.
                Some(_) if !request.is_accepted => self.forget(streams, id, Code::REQUEST_CANCELLED),
                Some(_) if !request.is_delivered => self.events.push_back(Event::Failed(id)),
                Some(_) => {}
            }
        }
    }

    /// Counts a request that the peer cancelled, or made invalid, before the response (rapid reset).
    pub(super) fn charge(&mut self, id: StreamId) {
        if self.side.is_server()
            && let Some(request) = self.requests.get_mut(&id)
            && request.outgoing.state == Sending::Head
            && !std::mem::replace(&mut request.is_charged, true)
        {
            self.count_early_reset();
        }
    }

    pub(super) fn count_early_reset(&mut self) {
        self.early_resets += 1;
        if self.early_resets > MAX_EARLY_RESETS {
            let reason = "requests are reset as fast as they are made";
            self.note(Err(Error::new(Code::EXCESSIVE_LOAD, reason)));
        }
    }

    /// Drops a request that the application has not accepted.
    pub(super) fn forget(&mut self, streams: &mut Streams, id: StreamId, code: Code) {
        if let Some(mut request) = self.remove(id) {
            request.incoming.abandon(&mut self.qpack, id, ReadError::Closed);
            self.ready.retain(|(ready, _)| *ready != id);
            // Either half of the stream may be closed already.
            let _ = (streams.stop(id, code.into()), streams.reset(id, code.into()));
        }
    }

    /// Reads up to the next byte of the content, the end, or the last byte that has arrived. Stores header
    /// sections and trailers on the way.
    fn read(&mut self, streams: &mut Streams, id: StreamId) -> Progress {
        loop {
            let Some(request) = self.requests.get_mut(&id) else { return Progress::Blocked };
            let is_server = self.side.is_server();
            let mut cx = Context { streams, qpack: &mut self.qpack, id, is_server };
            let result = match request.incoming.advance(&mut cx) {
                Ok(Progress::Section(Section::Fields(fields))) => self.on_section(streams, id, fields),
                Ok(Progress::TooLarge) => self.on_too_large(streams, id),
                Ok(Progress::End) => {
                    self.on_incoming_end(id);
                    return Progress::End;
                }
                Ok(progress) => return progress,
                Err(fault) => Err(fault),
            };
            match result {
                Ok(()) => {}
                Err(Fault::Stream(code)) => self.fail(streams, id, code),
                Err(Fault::Connection(error)) => {
                    self.note(Err(error));
                    return Progress::Blocked;
                }
            }
        }
    }

    /// Handles the end of the peer's data on this stream.
    fn on_incoming_end(&mut self, id: StreamId) {
        let end = self.requests.get(&id).and_then(|request| request.incoming.end);
        if matches!(end, Some(ReadError::Reset(_))) {
            self.charge(id);
        }
    }

    /// Closes both halves of the stream because the peer's message is malformed or has wrong datagrams. The application is informed
    /// if it has accepted the request.
    pub(super) fn fail(&mut self, streams: &mut Streams, id: StreamId, code: Code) {
        self.charge(id);
        let Some(request) = self.requests.get_mut(&id) else { return };
        if !request.is_accepted {
            return self.forget(streams, id, code);
        }
        request.incoming.abandon(&mut self.qpack, id, ReadError::Malformed(code));
        request.outgoing.abandon();
        // Either half of the stream may be closed already.
        let _ = (streams.stop(id, code.into()), streams.reset(id, code.into()));
        self.events.push_back(Event::Failed(id));
    }

    /// Handles a decoded field section. The message's phase determines whether it is a header section or
    /// trailers.
    fn on_section(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        fields: Result<FieldGatherer, Malformed>,
    ) -> Result<(), Fault> {
        let Some(request) = self.requests.get_mut(&id) else { return Ok(()) };
        let fields = fields?;
        if request.incoming.phase == Phase::Body {
            request.trailers = Some(fields.into_trailers()?);
            request.incoming.phase = Phase::Trailed;
            return Ok(());
        }
        if self.side.is_server() {
            let parts = fields.into_request()?;
            self.on_request(streams, id, parts)
        } else {
            on_response(request, fields.into_response()?, self.qpack.max_section())?;
            self.events.push_back(Event::Response(id));
            Ok(())
        }
    }

    fn on_request(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        parts: http::request::Parts,
    ) -> Result<(), Fault> {
        if parts.extensions.get::<Protocol>().is_some() && !self.config.enable_connect_protocol {
            return Err(Fault::Stream(Code::MESSAGE_ERROR));
        }
        let Some(request) = self.requests.get_mut(&id) else { return Ok(()) };
        request.method = parts.method.clone();
        if !request.datagrams.is_empty() && !takes_datagrams(&request.method) {
            return Err(Fault::Stream(Code::DATAGRAM_ERROR));
        }
        if request.method == Method::CONNECT {
            request.incoming.phase = Phase::Tunnel;
        } else {
            request.incoming.phase = Phase::Body;
            request.incoming.expected = content_length(&parts.headers)?;
        }
        request.is_delivered = true;
        let priority = request.priority.unwrap_or_else(|| Priority::of(&parts.headers));
        streams.set_priority(id, priority.into());
        if self.ready.is_empty() {
            self.events.push_back(Event::Request);
        }
        self.ready.push_back((id, parts));
        Ok(())
    }

    /// Handles a field section that exceeds our limits. A server responds to a request with status 431 (RFC
    /// 6585 §5). For any other message the stream is reset.
    fn on_too_large(&mut self, streams: &mut Streams, id: StreamId) -> Result<(), Fault> {
        let is_head = self.requests.get(&id).is_some_and(|request| !request.is_delivered);
        if !self.side.is_server() || !is_head {
            return Err(Fault::Stream(Code::EXCESSIVE_LOAD));
        }
        let (mut parts, ()) = http::Response::new(()).into_parts();
        parts.status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        self.charge(id);
        // If the response cannot be sent, the client gets no response.
        let _ = self.respond(streams, id, &parts, true);
        self.release(streams, id);
        Ok(())
    }
}

/// Handles the header section of a response (RFC 9114 §4.1). Interim responses that wait may have `max_size` bytes in all.
fn on_response(request: &mut Request, parts: http::response::Parts, max_size: u64) -> Result<(), Fault> {
    if parts.status.is_informational() {
        let is_kept = request.heads.push_interim(parts, max_size);
        return if is_kept { Ok(()) } else { Err(Fault::Stream(Code::EXCESSIVE_LOAD)) };
    }
    let incoming = &mut request.incoming;
    incoming.phase = Phase::Body;
    if request.method == Method::CONNECT && parts.status.is_success() {
        incoming.phase = Phase::Tunnel;
    }
    let length = content_length(&parts.headers)?;
    incoming.expected = match incoming.phase {
        // Without content, content-length declares the length that the content would have (RFC 9110
        // §8.6).
        _ if !may_have_content(&request.method, parts.status) => Some(0),
        Phase::Tunnel => None,
        _ => length,
    };
    request.is_delivered = true;
    request.heads.push(parts);
    Ok(())
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::Stream(Code::MESSAGE_ERROR)
    }
}

impl From<stream::ClosedStream> for ReadError {
    fn from(_: stream::ClosedStream) -> Self {
        Self::Closed
    }
}
