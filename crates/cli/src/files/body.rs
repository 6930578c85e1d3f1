//! The content of an answer. A file is read piece by piece on threads that may wait for a disk; while a piece is being
//! sent, the next one is read, and no more than that is in memory. The more answers there are, the smaller are the pieces:
//! clients that take nothing of what they ask for cannot fill the memory.

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
    /// Bytes that are still to come.
    left: u64,
    next: Next,
}

/// Source of the next piece.
#[derive(Debug)]
enum Next {
    Nothing,
    /// Content that is in memory, and the room that it takes.
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

    /// Returns a text; it gives `room` back once it is sent or dropped.
    pub(super) fn text(text: impl Into<Bytes>, room: Option<OwnedSemaphorePermit>) -> Self {
        let text = text.into();
        Self { left: text.len() as u64, next: Next::Text(text, room) }
    }

    /// Returns the next `len` bytes of a file. Reads the first piece at once.
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

    /// Returns the next piece of a text, no larger than those of files.
    fn cut(&mut self, mut text: Bytes, room: Option<OwnedSemaphorePermit>) -> Bytes {
        let piece = text.split_to(text.len().min(MAX_PIECE as usize));
        self.left -= piece.len() as u64;
        if !text.is_empty() {
            self.next = Next::Text(text, room);
        }
        piece
    }
}

/// Returns the next piece, of at most `left` bytes. A file that has become shorter cannot be sent as
/// promised.
fn read(mut source: Source, left: u64) -> io::Result<(Bytes, Source)> {
    let len = left.min(source.claim.piece());
    let mut piece = source.claim.memory().piece(len);
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
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use http_body_util::BodyExt;

    use super::*;

    fn file_of(len: u64) -> (File, Vec<u8>) {
        let content: Vec<u8> =
            (0..len).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        (file, content)
    }

    #[tokio::test]
    async fn files_come_in_bounded_pieces() {
        for len in [0, 1, MAX_PIECE - 1, MAX_PIECE, MAX_PIECE + 1, 5 * MAX_PIECE + 77] {
            let (file, content) = file_of(len);
            let mut body = FileBody::file(file, len, &Memory::default()).unwrap();
            let mut received = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(!piece.is_empty() && piece.len() as u64 <= MAX_PIECE);
                received.extend_from_slice(&piece);
                assert_eq!(body.size_hint().exact(), Some(len - received.len() as u64));
            }
            assert!(received == content && body.is_end_stream(), "{len}");
        }
    }

    #[tokio::test]
    async fn no_more_than_was_promised() {
        let (mut file, content) = file_of(3 * MAX_PIECE);
        file.seek(SeekFrom::Start(10)).unwrap();
        let body = FileBody::file(file, MAX_PIECE + 5, &Memory::default()).unwrap();
        assert!(body.collect().await.unwrap().to_bytes() == content[10..MAX_PIECE as usize + 15]);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let (file, _) = file_of(2 * MAX_PIECE);
        let body = FileBody::file(file, 3 * MAX_PIECE, &Memory::default()).unwrap();
        assert_eq!(body.collect().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// A reader that takes pieces and keeps them holds those and two more in memory, and nothing else.
    #[tokio::test]
    async fn no_more_is_held_than_was_taken_and_two_pieces() {
        let (file, _) = file_of(40 * MAX_PIECE);
        let memory = Memory::default();
        let mut body = FileBody::file(file, 40 * MAX_PIECE, &memory).unwrap();
        let mut kept = std::collections::VecDeque::new();
        while let Some(frame) = body.frame().await {
            kept.push_back(frame.unwrap().into_data().unwrap());
            if kept.len() > 5 {
                kept.pop_front();
            }
        }
        assert!(memory.most() <= 7 * MAX_PIECE, "{} bytes", memory.most());
        drop((kept, body));
        assert_eq!(memory.held(), 0);
    }
}
