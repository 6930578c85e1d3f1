//! Writing of this endpoint's messages: header sections, content and trailers.

use anabranch_transport::stream::Streams;
use anabranch_wire::{Dir, StreamId};
use bytes::Bytes;
use http::{HeaderMap, Method};

use super::Session;
use super::outgoing::Sending;
use super::request::{Request, check_written, may_have_content, promised_length};
use super::types::{Event, RequestError, WriteError};
use crate::error::Code;
use crate::frame::{FrameHeader, FrameType, write_header};
use crate::message::{Fields, InvalidMessage, Protocol, request_fields, response_fields, trailer_fields};
use crate::trace::FrameContent;

impl Session {
    /// Makes a request; for clients. If `end` is set, the request has neither content nor trailers.
    /// [`Event::Response`] announces the response. The application must [`release`](Self::release) the
    /// request in the end.
    ///
    /// # Errors
    /// Fails if the request is invalid or cannot be sent now.
    pub fn request(
        &mut self,
        streams: &mut Streams,
        parts: &http::request::Parts,
        end: bool,
    ) -> Result<StreamId, RequestError> {
        if self.goaway_received.is_some() || self.goaway_sent.is_some() {
            return Err(RequestError::GoingAway);
        }
        let fields = request_fields(parts)?;
        let allowed = self.peer_settings.as_ref().is_some_and(|settings| settings.enable_connect_protocol);
        if parts.extensions.get::<Protocol>().is_some() && !allowed {
            return Err(InvalidMessage("the server has not announced extended CONNECT").into());
        }
        self.check_size(&fields)?;
        // CONNECT has no content.
        let promised = if parts.method == Method::CONNECT { None } else { promised_length(&parts.headers)? };
        if end {
            check_written(promised, 0)?;
        }
        let id = streams.open(Dir::Bi).ok_or(RequestError::Blocked)?;
        self.next_request = StreamId::from_u64(id.as_u64() + 4);
        let mut request = Request::new(parts.method.clone());
        request.is_accepted = true;
        request.promised = promised;
        streams.set_priority(id, crate::Priority::of(&parts.headers).into());
        request.outgoing.state = Sending::Body;
        self.send_section(streams, id, &mut request, &fields);
        if end {
            request.outgoing.finish(streams, id);
        }
        self.requests.insert(id, request);
        Ok(id)
    }

    /// Sends the header section of a response; for servers. Interim responses (1xx) may precede it. If `end`
    /// is set, the response has neither content nor trailers. If the response must not have content, for
    /// instance because the method is HEAD, content is accepted and dropped (RFC 9110 §6.4.1).
    ///
    /// # Errors
    /// Fails if the response cannot be sent, but never with [`WriteError::Blocked`].
    pub fn respond(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        parts: &http::response::Parts,
        end: bool,
    ) -> Result<(), WriteError> {
        let fields = response_fields(parts)?;
        self.check_size(&fields)?;
        let is_interim = parts.status.is_informational();
        if end && is_interim {
            return Err(INTERIM_END.into());
        }
        let request = self.requests.get(&id).ok_or(WriteError::Closed)?;
        let sends_content = may_have_content(&request.method, parts.status);
        let promised = response_length(request, parts)?;
        if end {
            check_written(promised, 0)?;
        }
        let mut request = self.requests.remove(&id).ok_or(WriteError::Closed)?;
        let result = request.outgoing.check(Sending::Head);
        if result.is_ok() {
            self.send_section(streams, id, &mut request, &fields);
            if !is_interim && request.outgoing.state == Sending::Head {
                request.outgoing.state = Sending::Body;
                request.sends_content = sends_content;
                request.promised = promised;
                if !request.is_charged {
                    self.early_resets = self.early_resets.saturating_sub(1);
                }
                if end {
                    request.outgoing.finish(streams, id);
                }
            }
        }
        self.requests.insert(id, request);
        result
    }

    /// Sends a whole response in one call: header section, content and end; for servers. This function is
    /// intended for small bodies that are available at once. An empty body means no content.
    ///
    /// # Errors
    /// Fails if the response cannot be sent, but never with [`WriteError::Blocked`].
    pub fn respond_whole(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        parts: &http::response::Parts,
        body: &[u8],
    ) -> Result<(), WriteError> {
        let fields = response_fields(parts)?;
        self.check_size(&fields)?;
        let request = self.requests.get_mut(&id).ok_or(WriteError::Closed)?;
        request.outgoing.check(Sending::Head)?;
        if parts.status.is_informational() {
            return Err(INTERIM_END.into());
        }
        check_written(response_length(request, parts)?, body.len())?;
        let frames = &mut self.scratch;
        frames.clear();
        self.qpack.write_headers(streams, id, &fields, frames);
        if !body.is_empty() && may_have_content(&request.method, parts.status) {
            let header = FrameHeader { kind: FrameType::DATA, len: body.len() as u64 };
            write_header(header.kind, header.len, frames);
            frames.extend_from_slice(body);
            self.qpack.trace.frame_created(id, header, FrameContent::Opaque);
        }
        request.outgoing.push(streams, id, frames);
        request.outgoing.finish(streams, id);
        if !request.is_charged {
            self.early_resets = self.early_resets.saturating_sub(1);
        }
        Ok(())
    }

    /// Sends content without copying it: splits off as many bytes of `data` as flow control permits, and at
    /// least one unless `data` is empty. Returns their number.
    ///
    /// # Errors
    /// Fails if no content can be sent, or if flow control blocks it. Also fails, and sends nothing, if
    /// `data` exceeds the declared content-length. An application that cannot send less must
    /// [`reset`](Self::reset) the message, which would be malformed.
    pub fn write(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        data: &mut Bytes,
    ) -> Result<usize, WriteError> {
        let request = self.requests.get_mut(&id).ok_or(WriteError::Closed)?;
        if !request.sends_content {
            request.outgoing.check(Sending::Body)?;
            return Ok(std::mem::take(data).len());
        }
        request.outgoing.check(Sending::Body)?;
        request.check_more(data.len())?;
        let n = request.outgoing.write(streams, id, data)?;
        request.promised = request.promised.map(|promised| promised - n as u64);
        let header = FrameHeader { kind: FrameType::DATA, len: n as u64 };
        self.qpack.trace.frame_created(id, header, FrameContent::Opaque);
        Ok(n)
    }

    /// Ends the message with trailers.
    ///
    /// # Errors
    /// Fails if the trailers cannot be sent, but never with [`WriteError::Blocked`].
    pub fn write_trailers(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        trailers: &HeaderMap,
    ) -> Result<(), WriteError> {
        let fields = trailer_fields(trailers)?;
        self.check_size(&fields)?;
        let mut request = self.requests.remove(&id).ok_or(WriteError::Closed)?;
        let mut result = request.outgoing.check(Sending::Body);
        if request.method == Method::CONNECT {
            result = result.and(Err(InvalidMessage("a tunnel has no trailers").into()));
        }
        result = result.and(check_written(request.promised, 0).map_err(WriteError::from));
        if result.is_ok() {
            self.send_section(streams, id, &mut request, &fields);
            request.outgoing.finish(streams, id);
        }
        self.requests.insert(id, request);
        result
    }

    /// Ends the message.
    ///
    /// # Errors
    /// Fails if the message has already ended, has no header section yet, or is shorter than its
    /// content-length.
    pub fn finish(&mut self, streams: &mut Streams, id: StreamId) -> Result<(), WriteError> {
        let request = self.requests.get_mut(&id).ok_or(WriteError::Closed)?;
        request.outgoing.check(Sending::Body)?;
        check_written(request.promised, 0)?;
        request.outgoing.finish(streams, id);
        Ok(())
    }

    /// Resets the sending half of the request's stream with `code`.
    pub fn reset(&mut self, streams: &mut Streams, id: StreamId, code: Code) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.outgoing.abandon();
            // Fails if the peer has received the whole message already; there is nothing to reset then.
            let _ = streams.reset(id, code.into());
        }
    }

    /// Returns the reason that nothing more can be sent; `None` if something can be sent now, or could be
    /// with more flow control credit.
    pub fn write_end(&self, id: StreamId) -> Option<WriteError> {
        let Some(request) = self.requests.get(&id) else { return Some(WriteError::Closed) };
        match request.outgoing.stopped {
            Some(code) => Some(WriteError::Stopped(code)),
            None => (request.outgoing.state == Sending::Over).then_some(WriteError::Closed),
        }
    }

    /// Releases a request that the application no longer needs. Unfinished directions are reset or stopped; a
    /// finished message is still delivered.
    pub fn release(&mut self, streams: &mut Streams, id: StreamId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.is_released = true;
        let is_whole = request.outgoing.state == Sending::Over;
        if !is_whole {
            let code = if self.side.is_server() { Code::INTERNAL_ERROR } else { Code::REQUEST_CANCELLED };
            self.reset(streams, id, code);
        }
        // RFC 9114 §4.1.1: a server that has sent its response does not need the rest of the request.
        let code = if self.side.is_server() && is_whole { Code::NO_ERROR } else { Code::REQUEST_CANCELLED };
        self.stop(streams, id, code);
        self.remove_if_over(id);
    }

    /// Continues to write, because the stream has flow control credit again.
    pub(super) fn on_request_writable(&mut self, streams: &mut Streams, id: StreamId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.outgoing.flush(streams, id);
        if request.outgoing.is_flushed() && std::mem::take(&mut request.outgoing.waiting) {
            self.events.push_back(Event::Writable(id));
        }
        self.remove_if_over(id);
    }

    /// Handles the peer's STOP_SENDING. The transport resets the stream.
    pub(super) fn on_request_stopped(&mut self, streams: &mut Streams, id: StreamId, code: Code) {
        self.charge(id);
        let Some(request) = self.requests.get_mut(&id) else { return };
        if !request.is_accepted {
            return self.forget(streams, id, Code::REQUEST_CANCELLED);
        }
        request.outgoing.abandon();
        request.outgoing.stopped = Some(code);
        if !request.is_released {
            self.events.push_back(Event::Stopped(id, code));
        }
        self.remove_if_over(id);
    }

    fn remove_if_over(&mut self, id: StreamId) {
        if self.requests.get(&id).is_some_and(|request| request.is_released && request.outgoing.is_flushed())
        {
            self.remove(id);
        }
    }

    /// Checks that the section does not exceed the peer's limit; the peer would probably reject a larger one
    /// (RFC 9114 §4.2.2).
    fn check_size(&self, fields: &Fields<'_>) -> Result<(), InvalidMessage> {
        let limit = self.peer_settings.as_ref().and_then(|settings| settings.max_field_section_size);
        if limit.is_some_and(|limit| fields.section_size() > limit) {
            return Err(InvalidMessage("the fields are larger than the peer takes"));
        }
        Ok(())
    }

    /// Sends a HEADERS frame.
    fn send_section(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        request: &mut Request,
        fields: &Fields<'_>,
    ) {
        let frames = &mut self.scratch;
        frames.clear();
        self.qpack.write_headers(streams, id, fields, frames);
        request.outgoing.push(streams, id, frames);
    }
}

/// Error for an interim response that is not followed by a final one.
const INTERIM_END: InvalidMessage = InvalidMessage("an interim response as the only one");

/// Returns the content length that the `content-length` of a response declares. Returns `None` for a tunnel,
/// and for a response that never has content.
fn response_length(request: &Request, parts: &http::response::Parts) -> Result<Option<u64>, InvalidMessage> {
    let is_tunnel = request.method == Method::CONNECT && parts.status.is_success();
    if is_tunnel || parts.status.is_informational() || !may_have_content(&request.method, parts.status) {
        return Ok(None);
    }
    promised_length(&parts.headers)
}
