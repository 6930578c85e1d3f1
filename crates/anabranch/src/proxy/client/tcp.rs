//! A TCP connection through the proxy.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::{TunnelReceiver, TunnelSender};

/// Maximum number of bytes that one write takes and copies.
const MAX_WRITE: usize = 64 * 1024;

/// A TCP connection that the proxy has opened to a target. Bytes are read and written as on a `TcpStream`;
/// shutting it down closes the sending direction only. A reset by the target is
/// [`io::ErrorKind::ConnectionReset`].
///
/// Dropping it before the end of a direction resets that direction. [`TcpTunnel::pump`] connects it to a
/// `TcpStream` without copies of large pieces.
#[derive(Debug)]
pub struct TcpTunnel {
    pub(super) send: TunnelSender,
    pub(super) receive: TunnelReceiver,
}

impl TcpTunnel {
    pub(super) fn new(send: TunnelSender, receive: TunnelReceiver) -> Self {
        Self { send, receive }
    }

    /// Returns the halves of the request that carries the connection, for programs that avoid copies.
    pub fn into_halves(self) -> (TunnelSender, TunnelReceiver) {
        (self.send, self.receive)
    }
}

impl AsyncRead for TcpTunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let room = buf.remaining();
        match ready!(self.receive.poll_read_chunk(cx, room)) {
            Ok(Some(chunk)) => buf.put_slice(&chunk),
            Ok(None) => {}
            Err(error) => return Poll::Ready(Err(error.into())),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpTunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut data = copied(data);
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.send.poll_write(cx, &mut data).map_err(Into::into)
    }

    /// Does nothing, because written bytes are sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.send.finish().map_err(Into::into))
    }
}

/// Copies as much of `data` as one write takes.
fn copied(data: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&data[..data.len().min(MAX_WRITE)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_copies_max_write_bytes_at_most() {
        assert_eq!(copied(&[7; MAX_WRITE - 1]).len(), MAX_WRITE - 1);
        assert_eq!(copied(&vec![7; 10 * MAX_WRITE]).len(), MAX_WRITE);
    }
}
