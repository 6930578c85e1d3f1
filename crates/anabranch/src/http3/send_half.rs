//! Sending half of a request's stream.

use std::future::poll_fn;
use std::task::{Context, Poll};

use anabranch_http3::{Code, Priority};
use anabranch_wire::StreamId;
use bytes::Bytes;
use http::{HeaderMap, Response};

use super::Error;
use super::datagrams::Datagrams;
use super::error::write_error;
use super::half::Half;
use super::stall::Standing;

/// Sending half of a request's stream: a client sends the request's body on it, a server the response.
///
/// Dropping it before [`SendHalf::finish`] resets the stream: with H3_REQUEST_CANCELLED on a client, with
/// H3_INTERNAL_ERROR on a server.
#[derive(Debug)]
pub struct SendHalf {
    half: Half,
}

impl SendHalf {
    pub(super) fn new(half: Half) -> Self {
        Self { half }
    }

    /// Returns the stream's identifier.
    pub fn id(&self) -> StreamId {
        self.half.exchange.id
    }

    /// Sends the header section of a response; for servers. Interim responses (1xx, except 101) may be sent
    /// before the final one. [`SendHalf::write`] sends the body.
    ///
    /// # Errors
    /// Fails if the peer stopped the stream, if the connection is lost, or if the response cannot be sent
    /// over HTTP/3.
    pub fn send_response(&mut self, response: Response<()>) -> Result<(), Error> {
        self.send_head(&response.into_parts().0, false)
    }

    /// Sends a whole response; for servers.
    ///
    /// # Errors
    /// Fails as [`SendHalf::send_response`] does.
    pub async fn send_whole_response(&mut self, response: Response<Bytes>) -> Result<(), Error> {
        let (parts, body) = response.into_parts();
        if body.is_empty() {
            return self.send_head(&parts, true);
        }
        self.send_head(&parts, false)?;
        self.write(body).await?;
        self.finish()
    }

    pub(super) fn send_head(&mut self, parts: &http::response::Parts, end: bool) -> Result<(), Error> {
        self.act(|access, id| access.session.respond(access.core.streams(), id, parts, end))?;
        if !parts.status.is_informational() {
            self.half.exchange.set_conversing();
        }
        self.half.is_over |= end;
        Ok(())
    }

    /// Sends all of `data`, without a copy. Waits while flow control or the send buffer has no room.
    ///
    /// # Errors
    /// Fails if the peer stopped the stream, if the connection is lost, or if the stream is finished.
    pub async fn write(&mut self, mut data: Bytes) -> Result<(), Error> {
        while !data.is_empty() {
            poll_fn(|cx| self.poll_write(cx, &mut data)).await?;
        }
        Ok(())
    }

    /// Sends as much of `data` as there is room for, without a copy. Removes these bytes from the front of
    /// `data`, and returns their number. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`SendHalf::write`] does.
    pub fn poll_write(&mut self, cx: &Context<'_>, data: &mut Bytes) -> Poll<Result<usize, Error>> {
        self.half.exchange.poll(
            |access, id| {
                // A lost connection would accept the data, but never send it.
                access.ended().map_or(Ok(()), |error| Err(Some(error)))?;
                access.session.write(access.core.streams(), id, data).map_err(write_error)
            },
            |access, id| {
                access.tasks.wait_to_write(id, cx);
                true
            },
        )
    }

    /// Sends trailers, which end the message.
    ///
    /// # Errors
    /// Fails as [`SendHalf::write`] does, or if the trailers cannot be sent over HTTP/3.
    pub fn send_trailers(&mut self, trailers: &HeaderMap) -> Result<(), Error> {
        self.act(|access, id| access.session.write_trailers(access.core.streams(), id, trailers))?;
        self.half.is_over = true;
        Ok(())
    }

    /// Finishes the message: the peer receives the written data, and then the end.
    ///
    /// # Errors
    /// Fails as [`SendHalf::write`] does.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.act(|access, id| access.session.finish(access.core.streams(), id))?;
        self.half.is_over = true;
        Ok(())
    }

    /// Resets the stream with `code` (RESET_STREAM). Data that the peer has not received is discarded.
    pub fn reset(&mut self, code: Code) {
        self.half.is_over = true;
        self.half.exchange.update(|access, id| access.session.reset(access.core.streams(), id, code));
    }

    /// Waits until the peer stops the stream or the connection is lost, and returns the reason.
    pub async fn stopped(&mut self) -> Error {
        poll_fn(|cx| self.poll_stopped(cx)).await
    }

    pub(super) fn poll_stopped(&self, cx: &Context<'_>) -> Poll<Error> {
        self.half.exchange.poll_refused(cx)
    }

    /// Returns the progress of sending, for tasks that wait for room; `None` if the stream is closed for
    /// writing.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.half.exchange.with_session(|access, id| {
            let streams = access.core.streams();
            let delivered = streams.bytes_delivered();
            streams.send_progress(id).map(|progress| (progress, delivered))
        })
    }

    /// Sets the priority of this stream among those of the connection (RFC 9218). A client also sends it to
    /// the server in a PRIORITY_UPDATE frame.
    pub fn set_priority(&self, priority: Priority) {
        self.half
            .exchange
            .update(|access, id| access.session.set_priority(access.core.streams(), id, priority));
    }

    /// Returns the request's datagrams (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        self.half.datagrams()
    }

    fn act(
        &self,
        act: impl FnOnce(&mut super::state::Access<'_>, StreamId) -> Result<(), anabranch_http3::WriteError>,
    ) -> Result<(), Error> {
        self.half.exchange.update(|access, id| match access.ended() {
            Some(error) => Err(error),
            // Header sections and trailers never have to wait: the session buffers them if they do not fit.
            None => act(access, id).map_err(|error| write_error(error).unwrap_or(Error::Closed)),
        })
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if let Some(code) = self.half.code_of_drop(Code::INTERNAL_ERROR) {
            self.reset(code);
        }
    }
}
