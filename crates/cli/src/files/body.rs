//! Content of a response. Blocking threads read files piece by piece. While one piece is sent, the next one
//! is read. No further pieces are held in memory. Pieces are smaller if there are more responses, so clients
//! that do not read their responses cannot fill the memory.

use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

use super::memory::{Claim, MAX_PIECE, Memory};

/// Content of known length.
#[derive(Debug)]
pub(crate) struct FileBody {
    /// Number of bytes that are still to be sent.
    left: u64,
    next: Next,
}

/// Source of the next piece.
#[derive(Debug)]
enum Next {
    Nothing,
    /// Content in memory, and the permit for its memory.
    Text(Bytes, Option<OwnedSemaphorePermit>),
    Ready(Bytes, Source),
    Reading(JoinHandle<io::Result<(Bytes, Source)>>),
}

/// A file that is being sent.
#[derive(Debug)]
struct Source {
    file: File,
    claim: Claim,
}

impl FileBody {
    pub(super) fn empty() -> Self {
        Self { left: 0, next: Next::Nothing }
    }

    /// Creates a body from a text. The body releases `room` when it has been sent or is dropped.
    pub(super) fn text(text: impl Into<Bytes>, room: Option<OwnedSemaphorePermit>) -> Self {
        let text = text.into();
        Self { left: text.len() as u64, next: Next::Text(text, room) }
    }

    /// Creates a body from the next `len` bytes of a file. Reads the first piece at once.
    pub(super) fn file(file: File, len: u64, memory: &Memory) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::empty());
        }
        let (piece, source) = read(Source { file, claim: memory.claim() }, len)?;
        Ok(Self { left: len, next: Next::Ready(piece, source) })
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let (piece, source) = match mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => return Poll::Ready(None),
            Next::Text(text, room) => return Poll::Ready(Some(Ok(self.cut(text, room)))),
            Next::Ready(piece, source) => (piece, source),
            Next::Reading(mut reading) => match Pin::new(&mut reading).poll(cx) {
                Poll::Pending => {
                    self.next = Next::Reading(reading);
                    return Poll::Pending;
                }
                Poll::Ready(read) => match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Ok(read) => read,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
            },
        };
        self.left -= piece.len() as u64;
        let left = self.left;
        if left > 0 {
            self.next = Next::Reading(spawn_blocking(move || read(source, left)));
        }
        Poll::Ready(Some(Ok(piece)))
    }

    /// Removes the next piece of a text, no larger than a piece of a file.
    fn cut(&mut self, mut text: Bytes, room: Option<OwnedSemaphorePermit>) -> Bytes {
        let piece = text.split_to(text.len().min(MAX_PIECE as usize));
        self.left -= piece.len() as u64;
        if !text.is_empty() {
            self.next = Next::Text(text, room);
        }
        piece
    }
}

/// Reads the next piece, of at most `left` bytes. Fails if the file has become shorter than announced.
fn read(mut source: Source, left: u64) -> io::Result<(Bytes, Source)> {
    let len = left.min(source.claim.piece());
    let mut piece = source.claim.next(len);
    (&mut source.file).take(len).read_to_end(&mut piece.bytes)?;
    if (piece.bytes.len() as u64) < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
    }
    Ok((piece.into(), source))
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = ready!(self.poll_piece(cx));
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
