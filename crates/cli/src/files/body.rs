//! The content of an answer. A file is read piece by piece on threads that may wait for a disk; while a piece is being
//! sent, the next one is read, and no more than that is in memory.

use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of a file that are read at a time. An answer holds one piece that is being sent, and one that is ready.
pub(super) const PIECE: u64 = 128 * 1024;

/// Content of known length.
#[derive(Debug)]
pub(crate) struct FileBody {
    /// Bytes that are still to come.
    left: u64,
    next: Next,
}

/// Where the next piece comes from.
#[derive(Debug)]
enum Next {
    Nothing,
    Ready(Bytes, Option<File>),
    Reading(JoinHandle<io::Result<(Bytes, File)>>),
}

impl FileBody {
    pub(super) fn empty() -> Self {
        Self { left: 0, next: Next::Nothing }
    }

    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        Self { left: text.len() as u64, next: Next::Ready(text, None) }
    }

    /// The next `len` bytes of a file. Reads the first piece at once.
    pub(super) fn file(file: File, len: u64) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::empty());
        }
        let (piece, file) = read(file, len)?;
        Ok(Self { left: len, next: Next::Ready(piece, Some(file)) })
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let (piece, file) = match mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => return Poll::Ready(None),
            Next::Ready(piece, file) => (piece, file),
            Next::Reading(mut reading) => match Pin::new(&mut reading).poll(cx) {
                Poll::Pending => {
                    self.next = Next::Reading(reading);
                    return Poll::Pending;
                }
                Poll::Ready(read) => match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Ok((piece, file)) => (piece, Some(file)),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
            },
        };
        self.left -= piece.len() as u64;
        let left = self.left;
        if let Some(file) = file.filter(|_| left > 0) {
            self.next = Next::Reading(spawn_blocking(move || read(file, left)));
        }
        Poll::Ready(Some(Ok(piece)))
    }
}

/// The next piece, of at most `left` bytes. A file that has become shorter cannot be sent as promised.
fn read(mut file: File, left: u64) -> io::Result<(Bytes, File)> {
    let len = left.min(PIECE);
    let mut piece = Vec::with_capacity(len as usize);
    (&mut file).take(len).read_to_end(&mut piece)?;
    if (piece.len() as u64) < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
    }
    Ok((piece.into(), file))
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
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 77] {
            let (file, content) = file_of(len);
            let mut body = FileBody::file(file, len).unwrap();
            let mut received = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(!piece.is_empty() && piece.len() as u64 <= PIECE);
                received.extend_from_slice(&piece);
                assert_eq!(body.size_hint().exact(), Some(len - received.len() as u64));
            }
            assert!(received == content && body.is_end_stream(), "{len}");
        }
    }

    #[tokio::test]
    async fn no_more_than_was_promised() {
        let (mut file, content) = file_of(3 * PIECE);
        file.seek(SeekFrom::Start(10)).unwrap();
        let body = FileBody::file(file, PIECE + 5).unwrap();
        assert!(body.collect().await.unwrap().to_bytes() == content[10..PIECE as usize + 15]);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let (file, _) = file_of(2 * PIECE);
        let body = FileBody::file(file, 3 * PIECE).unwrap();
        assert_eq!(body.collect().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
