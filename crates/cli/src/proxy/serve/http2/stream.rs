//! The stream of a tunnel as a stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::MAX_BUFFER;

/// A stream after the response. It is reset with CONNECT_ERROR if it is dropped before the end was sent, and a TCP connection's
/// also if it is dropped before the client's end (RFC 9113 §8.5).
pub(super) struct Stream {
    send: SendStream<Bytes>,
    receive: RecvStream,
    /// Received bytes that are not read yet.
    unread: Bytes,
    is_tcp: bool,
    is_sent: bool,
    is_received: bool,
}

impl Stream {
    pub(super) fn new(send: SendStream<Bytes>, receive: RecvStream, is_tcp: bool) -> Self {
        Self { send, receive, unread: Bytes::new(), is_tcp, is_sent: false, is_received: false }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.receive.poll_data(cx)) {
                Some(Ok(data)) => self.unread = data,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    self.is_received = true;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let len = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread[..len]);
        self.unread.advance(len);
        // If this fails, the stream has ended, and the window does not matter.
        let _ = self.receive.flow_control().release_capacity(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // h2 would buffer bytes beyond the windows without a limit.
        self.send.reserve_capacity(data.len().min(MAX_BUFFER));
        while self.send.capacity() == 0 {
            match ready!(self.send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
        let len = self.send.capacity().min(data.len());
        let piece = Bytes::copy_from_slice(&data[..len]);
        Poll::Ready(self.send.send_data(piece, false).map(|()| len).map_err(io::Error::other))
    }

    /// Does nothing: written bytes are sent without being asked.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_sent {
            self.send.send_data(Bytes::new(), true).map_err(io::Error::other)?;
            self.is_sent = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_sent || self.is_tcp && !self.is_received {
            self.send.send_reset(Reason::CONNECT_ERROR);
        }
    }
}
