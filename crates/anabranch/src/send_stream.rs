//! The sending half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anabranch_transport::ConnectionError;
use anabranch_transport::schedule::Route;
use anabranch_transport::stream::{self, ClosedStream, Priority, SendState, Streams};
use anabranch_wire::{StreamId, VarInt};
use bytes::Bytes;
use tokio::io::AsyncWrite;

use crate::connection_inner::{ConnectionRef, State, Writer};
use crate::error::WriteError;

/// The sending half of a stream.
///
/// Dropping it finishes the stream, unless it was finished or reset before: written data is still delivered.
/// Call [`SendStream::reset`] to discard it instead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
/// # use anabranch::{Endpoint, SelfSigned, config};
/// use anabranch::{Priority, Route};
///
/// # let identity = SelfSigned::new(["localhost"])?;
/// # let server = Endpoint::server(identity.server_config(["example"])?, "127.0.0.1:0".parse()?)?;
/// # let address = server.local_addr()?;
/// # tokio::spawn(async move {
/// #     let connection = server.accept().await?.await.ok()?;
/// #     let (mut send, mut recv) = connection.accept_bi().await.ok()?;
/// #     let request = recv.read_to_end(1024).await.ok()?;
/// #     send.write_all(&request).await.ok()?;
/// #     send.finish().ok()?;
/// #     Some(connection.closed().await)
/// # });
/// # let config = config::client(identity.roots()?, ["example"])?;
/// # let client = Endpoint::client("127.0.0.1:0".parse()?)?;
/// # let connection = client.connect_with(&config, address, "localhost")?.await?;
/// let (mut send, mut recv) = connection.open_bi().await?;
/// // This stream is sent in turn with others, and on this path as long as the path works.
/// send.set_priority(Priority::default());
/// send.set_route(Route::Only(connection.paths()[0].id));
/// send.write_all(b"a request").await?;
/// send.finish()?;
/// // The peer has received everything once this returns without a code.
/// assert_eq!(send.stopped().await?, None);
/// # assert_eq!(recv.read_to_end(1024).await?, b"a request");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
}

impl SendStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        connection.with_state(|state| state.writers.insert(id, Writer::default()));
        Self { connection, id }
    }

    /// Returns the stream's identifier.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Copies some of `data` into the stream, at least one byte unless `data` is empty, and returns the
    /// number of bytes. Waits while flow control or the send buffer has no room.
    ///
    /// # Errors
    /// Fails if the peer stopped the stream, if the connection is lost, or if the stream was closed.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write(cx, data)).await
    }

    /// Polls [`SendStream::write`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`SendStream::write`] does.
    pub fn poll_write(&mut self, cx: &Context<'_>, data: &[u8]) -> Poll<Result<usize, WriteError>> {
        self.poll_write_with(cx, |streams, id| streams.write(id, data))
    }

    /// Copies all of `data` into the stream. If the future is dropped early, a part may have been written.
    ///
    /// # Errors
    /// Fails as [`SendStream::write`] does.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let n = self.write(data).await?;
            data = &data[n..];
        }
        Ok(())
    }

    /// Sends all of `chunk` without copying it.
    ///
    /// # Errors
    /// Fails as [`SendStream::write`] does.
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        while !chunk.is_empty() {
            poll_fn(|cx| self.poll_write_chunk(cx, &mut chunk)).await?;
        }
        Ok(())
    }

    /// Sends as much of `chunk` as there is room for, without copying it. Removes these bytes from the front
    /// of `chunk`, and returns their number. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`SendStream::write`] does.
    pub fn poll_write_chunk(
        &mut self,
        cx: &Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_write_with(cx, |streams, id| streams.write_bytes(id, chunk))
    }

    /// Finishes the stream: the peer receives the written data, and then the end. [`SendStream::stopped`]
    /// waits until the peer has acknowledged it.
    ///
    /// Succeeds if the peer has stopped the stream: it needs no more of it, and its STOP_SENDING may arrive
    /// just before this call or just after it. [`SendStream::stopped`] returns its code.
    ///
    /// # Errors
    /// Fails if the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        self.connection.update(|state| {
            let finished = state.core.streams().finish(self.id);
            if self.stop_code(state).is_some() { Ok(()) } else { finished }
        })
    }

    /// Resets the stream with the application's `code` (RESET_STREAM; at most 2^62 - 1). Data that the peer
    /// has not received is discarded.
    ///
    /// # Errors
    /// Fails if the stream was closed before and the peer has received all of it.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.connection.update(|state| state.core.streams().reset(self.id, code))
    }

    /// Waits until the peer stops the stream or has acknowledged all of it. Returns the code of the peer's
    /// application if it stopped the stream, and `None` otherwise.
    ///
    /// # Errors
    /// Fails if the connection is lost first.
    pub async fn stopped(&mut self) -> Result<Option<VarInt>, ConnectionError> {
        poll_fn(|cx| self.poll_stopped(cx)).await
    }

    fn poll_stopped(&self, cx: &Context<'_>) -> Poll<Result<Option<VarInt>, ConnectionError>> {
        self.connection.with_state(|state| {
            if let Some(code) = self.stop_code(state) {
                return Poll::Ready(Ok(Some(code)));
            }
            let writer = state.writers.entry(self.id).or_default();
            if matches!(
                state.core.streams().send_state(self.id),
                None | Some(SendState::DataRecvd | SendState::ResetRecvd)
            ) {
                return Poll::Ready(Ok(None));
            }
            if let Some(error) = &state.ended {
                return Poll::Ready(Err(error.clone()));
            }
            writer.end = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Returns the code with which the peer has stopped the stream.
    fn stop_code(&self, state: &mut State) -> Option<VarInt> {
        let writer = state.writers.get(&self.id);
        writer.and_then(|writer| writer.stopped).or_else(|| state.core.streams().stopped(self.id))
    }

    /// Sets the stream's priority relative to other streams with data. The peer is not informed.
    pub fn set_priority(&self, priority: Priority) {
        self.connection.update(|state| state.core.streams().set_priority(self.id, priority));
    }

    /// Sets the paths that may carry the stream's data, including retransmissions; see [`Route`]. Data that
    /// has already been sent is not affected. The peer is not informed, and chooses the paths of the other
    /// direction.
    pub fn set_route(&self, route: Route) {
        self.connection.update(|state| state.core.streams().set_route(self.id, route));
    }

    fn poll_write_with(
        &self,
        cx: &Context<'_>,
        write: impl FnOnce(&mut Streams, StreamId) -> Result<usize, stream::WriteError>,
    ) -> Poll<Result<usize, WriteError>> {
        let (poll, wrote) = self.connection.with_state(|state| {
            if let Some(error) = &state.ended {
                return (Poll::Ready(Err(error.clone().into())), false);
            }
            let writer = state.writers.entry(self.id).or_default();
            match write(state.core.streams(), self.id) {
                Ok(n) => (Poll::Ready(Ok(n)), true),
                Err(stream::WriteError::Blocked) => {
                    writer.room = Some(cx.waker().clone());
                    // A frame that reports the blocked stream or connection may have to be sent.
                    (Poll::Pending, true)
                }
                Err(stream::WriteError::Stopped(code)) => {
                    (Poll::Ready(Err(WriteError::Stopped(code))), false)
                }
                Err(_) => {
                    let error = writer.stopped.map_or(WriteError::ClosedStream, WriteError::Stopped);
                    (Poll::Ready(Err(error)), false)
                }
            }
        });
        if wrote {
            self.connection.mark_dirty();
        }
        poll
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let n = ready!(self.get_mut().poll_write(cx, data))?;
        Poll::Ready(Ok(n))
    }

    /// Returns ready at once, since written data is sent as soon as possible without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A stream that is already closed needs no shutdown.
        let _ = self.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.connection.update(|state| {
            state.writers.remove(&self.id);
            // Fails if the stream was finished, reset or stopped. Nothing is left to do then.
            let _ = state.core.streams().finish(self.id);
        });
    }
}
