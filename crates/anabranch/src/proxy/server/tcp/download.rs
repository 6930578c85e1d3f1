//! Body of a response that consists of the target's bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::time::{Sleep, sleep};

use super::super::flow::Outcome;
use super::link::Link;

/// Minimum and, below, maximum size of a read, in bytes. The size doubles after each read that fills it, and returns to the
/// minimum when no bytes are available. An idle tunnel has no buffer.
const MIN_READ: usize = 4 * 1024;
const MAX_READ: usize = 64 * 1024;

/// The direction from a target to a client. Dropping it before its end means that the client has aborted the tunnel.
pub(in crate::proxy::server) struct Download {
    link: Arc<Link>,
    /// Size of the next read, in bytes.
    size: usize,
    buffer: BytesMut,
    /// Timer that ends when the user's rate allows more bytes.
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Download {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, size: MIN_READ, buffer: BytesMut::new(), pause: None, ended: false }
    }

    /// Returns the next bytes; `None` at the end. Stays pending after an abort, because the task that supervises the
    /// tunnel resets the stream then.
    pub(in crate::proxy::server) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        loop {
            self.buffer.reserve(self.size);
            match self.link.stream.try_read_buf(&mut self.buffer) {
                Ok(0) => {
                    self.ended = true;
                    self.link.end_download();
                    return Poll::Ready(None);
                }
                Ok(n) => return Poll::Ready(Some(self.take(n))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.buffer = BytesMut::new();
                    self.size = MIN_READ;
                    match ready!(self.link.stream.poll_read_ready(cx)) {
                        Ok(()) => {}
                        Err(_) => return self.abort(),
                    }
                }
                Err(_) => return self.abort(),
            }
        }
    }

    fn take(&mut self, n: usize) -> Bytes {
        self.size = next_size(self.size, n);
        self.pause = self.link.flow.received(n).map(|wait| Box::pin(sleep(wait)));
        self.buffer.split_to(n).freeze()
    }

    fn abort<T>(&self) -> Poll<T> {
        self.link.abort_download(Outcome::ByTarget);
        Poll::Pending
    }
}

/// Returns the size of the next read after a read of `size` has returned `n` bytes.
fn next_size(size: usize, n: usize) -> usize {
    if n >= size { (2 * size).min(MAX_READ) } else { size }
}

impl http_body::Body for Download {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.poll_read(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if !self.ended {
            self.link.abort_download(Outcome::ByClient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_to_max_read() {
        let mut size = MIN_READ;
        for _ in 0..20 {
            assert_eq!(next_size(size, size - 1), size, "a read that was not filled");
            size = next_size(size, size);
            assert!(size <= MAX_READ);
        }
        assert_eq!(size, MAX_READ);
    }
}
