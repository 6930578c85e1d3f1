//! The receiving half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anabranch_transport::stream::{self, ClosedStream, Streams};
use anabranch_wire::{StreamId, VarInt};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection_inner::ConnectionRef;
use crate::error::{ReadError, ReadExactError, ReadToEndError};

/// The receiving half of a stream.
///
/// Dropping it before the end was read stops the stream with code 0 (STOP_SENDING).
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    /// `true` once the end of the stream was read.
    over: bool,
    /// Bytes that were lent to a reader that has not consumed all of them.
    held: Bytes,
    /// `true` if the stream is read out of order.
    unordered: bool,
}

/// Contiguous bytes of a stream; see [`RecvStream::read_unordered`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// The bytes, at least one.
    pub bytes: Bytes,
}

impl RecvStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        connection.with_state(|state| state.readers.insert(id, None));
        Self { connection, id, over: false, held: Bytes::new(), unordered: false }
    }

    /// Returns the stream's identifier.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Copies received bytes into `buffer`, and returns their number. Waits for at least one byte; `None` at
    /// the end of the stream.
    ///
    /// # Errors
    /// Fails if the peer reset the stream, if the connection is lost, or if the stream was stopped.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        if buffer.is_empty() {
            return Ok(Some(0));
        }
        poll_fn(|cx| {
            self.poll_copy(cx, |bytes| {
                let n = bytes.len().min(buffer.len());
                buffer[..n].copy_from_slice(&bytes[..n]);
                n
            })
        })
        .await
    }

    /// Lends received bytes to `read` without copying them. `read` gets a piece that is not empty, and
    /// returns the number of bytes that it has consumed. This function returns the same number. Waits for a
    /// piece; `None` at the end of the stream.
    ///
    /// The connection is not blocked while `read` runs, and `read` may use it and its other streams. The peer
    /// gets flow control credit for the whole piece. The next call begins with the bytes that `read` did not
    /// consume.
    ///
    /// ```no_run
    /// # async fn count(mut stream: anabranch::RecvStream) -> Result<u64, anabranch::ReadError> {
    /// let mut newlines = 0;
    /// let mut count = |bytes: &[u8]| {
    ///     newlines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    ///     bytes.len()
    /// };
    /// while stream.read_with(&mut count).await?.is_some() {}
    /// # Ok(newlines)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does.
    pub async fn read_with(&mut self, read: impl FnMut(&[u8]) -> usize) -> Result<Option<usize>, ReadError> {
        self.in_order()?;
        if self.held.is_empty() {
            let Some(piece) = self.read_chunk(usize::MAX).await? else { return Ok(None) };
            self.held = piece;
        }
        Ok(Some(self.lend_held(read)))
    }

    /// Lends the held bytes to `read`, without the connection's lock. Returns the number of consumed bytes.
    fn lend_held(&mut self, mut read: impl FnMut(&[u8]) -> usize) -> usize {
        let n = read(&self.held).min(self.held.len());
        self.held.advance(n);
        if self.held.is_empty() {
            // An empty slice would keep its memory allocated.
            self.held = Bytes::new();
        }
        n
    }

    /// Fills the whole `buffer`.
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does, or if the stream ends before `buffer` is full.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]).await? {
                Some(n) => filled += n,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Reads until the end of the stream, at most `limit` bytes.
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does, or if more than `limit` bytes remain.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        let mut too_long = false;
        loop {
            let mut read = |bytes: &[u8]| {
                too_long = all.len() + bytes.len() > limit;
                if !too_long {
                    all.extend_from_slice(bytes);
                }
                bytes.len()
            };
            if poll_fn(|cx| self.poll_copy(cx, &mut read)).await?.is_none() {
                return Ok(all);
            }
            if too_long {
                return Err(ReadToEndError::TooLong);
            }
        }
    }

    /// Returns the next received bytes in order, at most `max`; `None` at the end of the stream. The bytes
    /// are copied only if the application still holds many bytes of earlier calls.
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// Polls [`RecvStream::read_chunk`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does.
    pub fn poll_read_chunk(
        &mut self,
        cx: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.in_order()?;
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        if !self.held.is_empty() {
            let piece = self.held.split_to(max.min(self.held.len()));
            return Poll::Ready(Ok(Some(piece)));
        }
        self.poll_with(cx, |streams, id| streams.take(id, max))
    }

    /// Returns the next received piece, at most `max` bytes and at least one, even if earlier bytes are
    /// missing; `None` once every byte of the stream has been returned. No byte is returned twice. Of the
    /// received pieces, the one with the lowest offset is returned first. This function is for readers that
    /// can use a piece at any offset: a lost packet then delays no other data.
    ///
    /// The peer gets flow control credit for each piece when it is returned. From the first call on, the
    /// stream can only be read in this way: every other function fails with
    /// [`ReadError::IllegalOrderedRead`]. A piece is copied unless it lies at the beginning of a block of
    /// memory.
    ///
    /// ```no_run
    /// use std::os::unix::fs::FileExt;
    /// # async fn save(mut stream: anabranch::RecvStream) -> Result<(), anabranch::Error> {
    /// let file = std::fs::File::create("download")?;
    /// while let Some(chunk) = stream.read_unordered(64 * 1024).await? {
    ///     file.write_all_at(&chunk.bytes, chunk.offset)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does.
    pub async fn read_unordered(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_read_unordered(cx, max)).await
    }

    /// Polls [`RecvStream::read_unordered`]. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails as [`RecvStream::read`] does.
    pub fn poll_read_unordered(
        &mut self,
        cx: &Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        self.unordered = true;
        if !self.held.is_empty() {
            let end = self.connection.with_state(|state| state.core.streams().read_offset(self.id));
            // If the stream has ended, the held bytes were its last ones.
            let Some(end) = end else { return Poll::Ready(Err(ReadError::ClosedStream)) };
            let offset = end.saturating_sub(self.held.len() as u64);
            let bytes = self.held.split_to(max.clamp(1, self.held.len()));
            return Poll::Ready(Ok(Some(Chunk { offset, bytes })));
        }
        let take = |streams: &mut Streams, id| streams.take_unordered(id, max);
        self.poll_with(cx, take).map_ok(|taken| taken.map(|(offset, bytes)| Chunk { offset, bytes }))
    }

    /// Fails if the stream is read out of order.
    fn in_order(&self) -> Result<(), ReadError> {
        if self.unordered { Err(ReadError::IllegalOrderedRead) } else { Ok(()) }
    }

    /// Asks the peer to stop sending (STOP_SENDING), with the application's `code` (at most 2^62 - 1).
    ///
    /// # Errors
    /// Fails if the stream was stopped or read to its end before.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.held = Bytes::new();
        self.connection.update(|state| state.core.streams().stop(self.id, code))
    }

    /// Passes the next contiguous bytes to `copy` while the connection's lock is held. `copy` must do nothing
    /// but copy, so applications cannot call this.
    fn poll_copy(
        &mut self,
        cx: &Context<'_>,
        copy: impl FnMut(&[u8]) -> usize,
    ) -> Poll<Result<Option<usize>, ReadError>> {
        self.in_order()?;
        if !self.held.is_empty() {
            return Poll::Ready(Ok(Some(self.lend_held(copy))));
        }
        let mut copy = copy;
        self.poll_with(cx, |streams, id| {
            let bytes = streams.peek(id)?;
            let n = copy(bytes).min(bytes.len());
            // The stream was readable just now, so it is not closed.
            let _ = streams.consume(id, n);
            Ok(n)
        })
    }

    fn poll_with<T>(
        &mut self,
        cx: &Context<'_>,
        read: impl FnOnce(&mut Streams, StreamId) -> Result<T, stream::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if self.over {
            return Poll::Ready(Ok(None));
        }
        let poll = self.connection.with_state(|state| match read(state.core.streams(), self.id) {
            Ok(value) => Poll::Ready(Ok(Some(value))),
            Err(stream::ReadError::Finished) => Poll::Ready(Ok(None)),
            Err(stream::ReadError::Reset(code)) => Poll::Ready(Err(ReadError::Reset(code))),
            Err(stream::ReadError::Unordered) => Poll::Ready(Err(ReadError::IllegalOrderedRead)),
            Err(stream::ReadError::Blocked) => match &state.ended {
                Some(error) => Poll::Ready(Err(error.clone().into())),
                None => {
                    state.readers.insert(self.id, Some(cx.waker().clone()));
                    Poll::Pending
                }
            },
            Err(_) => Poll::Ready(Err(ReadError::ClosedStream)),
        });
        match &poll {
            // Reading gives the peer flow control credit, which must be sent.
            Poll::Ready(Ok(Some(_))) => self.connection.mark_dirty(),
            Poll::Ready(Ok(None) | Err(ReadError::Reset(_))) => {
                self.over = matches!(poll, Poll::Ready(Ok(None)));
                self.connection.mark_dirty();
            }
            _ => {}
        }
        poll
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_copy(cx, |bytes| {
            let n = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..n]);
            n
        }))?;
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.connection.update(|state| {
            state.readers.remove(&self.id);
            // Fails if the stream was read to its end, reset or stopped. Nothing is left to do then.
            let _ = state.core.streams().stop(self.id, VarInt::ZERO);
        });
    }
}
