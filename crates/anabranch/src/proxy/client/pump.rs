//! Transfer of bytes between a tunnel and a local TCP connection, without copies of large pieces in this process.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use anabranch_http3::Code;
use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stream::{StreamError, TunnelReceiver, TunnelSender};
use super::tcp::TcpTunnel;

/// Size of the buffer into which the local connection is read, in bytes.
const READ: usize = 64 * 1024;
/// Maximum number of received chunks that are gathered for the local connection, and that one system call writes.
const MAX_PIECES: usize = 64;
/// Maximum number of received bytes that are gathered for the local connection. Further ones stay in the stream, whose
/// flow control stops the proxy.
const MAX_GATHERED: usize = 256 * 1024;
/// Maximum time for which the bytes of a program are still sent to the target after the program has reset its connection, and
/// for which they are discarded after the tunnel has ended.
const FAREWELL: Duration = Duration::from_millis(250);

/// Numbers of payload bytes that a tunnel has carried so far.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Returns the number of bytes sent to the target.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes received from the target.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Counts bytes sent to the target.
    pub fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes received from the target.
    pub fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Result of [`TcpTunnel::pump`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Pumped {
    /// Number of bytes read for the target. After a failure, the last of them may not have been sent.
    pub sent: u64,
    /// Number of bytes received from the target and written to the local connection.
    pub received: u64,
    /// Reason why both directions were reset; `None` if each direction ended regularly.
    pub error: Option<io::Error>,
}

/// Failure of one direction, after which the other direction is reset as well.
enum Fault {
    Local(io::Error),
    Tunnel(StreamError),
}

impl TcpTunnel {
    /// Moves bytes in both directions until both have ended, or until one fails. Sends `first` before the bytes that are
    /// read from `local`: those are bytes that the caller has read from `local` already.
    ///
    /// Half-closes pass through in both directions. A reset of the local connection resets the tunnel, and vice versa. The
    /// loss of the connection to the proxy resets the local connection.
    pub async fn pump(self, local: TcpStream, first: Bytes) -> Pumped {
        self.pump_counting(local, first, &Traffic::default()).await
    }

    /// Moves bytes like [`TcpTunnel::pump`], and counts them in `traffic` as they pass.
    pub async fn pump_counting(mut self, local: TcpStream, first: Bytes, traffic: &Traffic) -> Pumped {
        // Without TCP_NODELAY small messages are delayed, but not lost.
        let _ = local.set_nodelay(true);
        let fault = both(&mut self, &local, first, traffic).await.err();
        if fault.is_some() {
            // The kernel then closes the local connection with a RST, so that the program does not take a FIN for a regular end.
            let _ = SockRef::from(&local).set_linger(Some(Duration::ZERO));
            // RFC 9114 §4.4: an error of the TCP connection is a stream error of type H3_CONNECT_ERROR.
            self.send.reset(Code::CONNECT_ERROR);
            self.receive.stop(Code::CONNECT_ERROR);
        }
        let error = fault.map(|fault| match fault {
            Fault::Local(error) => error,
            Fault::Tunnel(error) => error.into(),
        });
        Pumped { sent: traffic.sent(), received: traffic.received(), error }
    }
}

async fn both(
    tunnel: &mut TcpTunnel,
    local: &TcpStream,
    first: Bytes,
    traffic: &Traffic,
) -> Result<(), Fault> {
    let mut up = pin!(upload(local, &mut tunnel.send, first, traffic));
    let mut down = pin!(download(local, &mut tunnel.receive, traffic));
    let (mut is_up_over, mut is_down_over, mut is_stopped) = (false, false, false);
    while !(is_up_over && is_down_over) {
        tokio::select! {
            end = &mut up, if !is_up_over => {
                match end {
                    // RFC 9114 §4.1: the proxy needs no further bytes, but may still send its own.
                    Err(Fault::Tunnel(error)) if error.is_enough() => is_stopped = true,
                    end => end?,
                }
                is_up_over = true;
            }
            // A program that cannot write might read nothing.
            end = discard(local), if is_stopped => {
                end?;
                is_stopped = false;
            }
            end = &mut down, if !is_down_over => {
                end?;
                is_down_over = true;
            }
            error = reset(local) => {
                if !is_up_over {
                    // Bytes that the program sent before the RST are sent to the target first.
                    let _ = timeout(FAREWELL, &mut up).await;
                }
                return Err(Fault::Local(error));
            }
        }
    }
    if is_stopped {
        // If bytes were unread, the kernel would close the connection with a RST, by which the program may lose what it has not
        // read yet.
        let _ = timeout(FAREWELL, discard(local)).await;
    }
    Ok(())
}

/// Reads and discards the bytes of the local connection, until the program ends its sending direction.
async fn discard(local: &TcpStream) -> Result<(), Fault> {
    let mut buffer = vec![0; READ];
    loop {
        local.readable().await.map_err(Fault::Local)?;
        match local.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Fault::Local(error)),
        }
    }
}

/// Sends the bytes of the local connection, and the end of its sending direction, to the target.
async fn upload(
    local: &TcpStream,
    send: &mut TunnelSender,
    first: Bytes,
    traffic: &Traffic,
) -> Result<(), Fault> {
    traffic.add_sent(first.len() as u64);
    send.write(first).await.map_err(Fault::Tunnel)?;
    let mut buffer = BytesMut::new();
    loop {
        tokio::select! {
            readable = local.readable() => readable.map_err(Fault::Local)?,
            error = send.stopped() => return Err(Fault::Tunnel(error)),
        }
        buffer.reserve(READ);
        match local.try_read_buf(&mut buffer) {
            Ok(0) => return send.finish().map_err(Fault::Tunnel),
            Ok(n) => {
                traffic.add_sent(n as u64);
                send.write(taken(&mut buffer)).await.map_err(Fault::Tunnel)?;
            }
            // An idle connection holds no buffer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => buffer = BytesMut::new(),
            Err(error) => return Err(Fault::Local(error)),
        }
    }
}

/// Takes the bytes in the buffer. Fewer than `READ / 8` bytes are copied, so that they do not keep a large buffer
/// allocated until they are acknowledged.
fn taken(buffer: &mut BytesMut) -> Bytes {
    if buffer.len() >= READ / 8 {
        return buffer.split().freeze();
    }
    let copied = Bytes::copy_from_slice(buffer);
    buffer.clear();
    copied
}

/// Writes what the target sends to the local connection, and its end.
async fn download(local: &TcpStream, receive: &mut TunnelReceiver, traffic: &Traffic) -> Result<(), Fault> {
    let mut pieces = VecDeque::new();
    loop {
        let is_end = gather(receive, &mut pieces).await.map_err(Fault::Tunnel)?;
        let total: usize = pieces.iter().map(Bytes::len).sum();
        write_all(local, &mut pieces).await.map_err(Fault::Local)?;
        traffic.add_received(total as u64);
        if is_end {
            return SockRef::from(local).shutdown(Shutdown::Write).map_err(Fault::Local);
        }
    }
}

/// Waits for received bytes, and takes as many pieces as there are now, within bounds. Returns whether the
/// end was reached.
async fn gather(receive: &mut TunnelReceiver, pieces: &mut VecDeque<Bytes>) -> Result<bool, StreamError> {
    poll_fn(|cx| poll_pieces(pieces, |max| receive.poll_read_chunk(cx, max))).await
}

/// Takes chunks from `next` until it is pending or a bound is reached; the argument of `next` is the maximum length of the
/// chunk. Returns whether the end of the stream was reached.
fn poll_pieces<E>(
    pieces: &mut VecDeque<Bytes>,
    mut next: impl FnMut(usize) -> Poll<Result<Option<Bytes>, E>>,
) -> Poll<Result<bool, E>> {
    let mut bytes = 0;
    while pieces.len() < MAX_PIECES && bytes < MAX_GATHERED {
        match next(MAX_GATHERED - bytes) {
            Poll::Ready(Ok(Some(piece))) => {
                bytes += piece.len();
                pieces.push_back(piece);
            }
            Poll::Ready(Ok(None)) => return Poll::Ready(Ok(true)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if pieces.is_empty() => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready(Ok(false))
}

async fn write_all(local: &TcpStream, pieces: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !pieces.is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let count = pieces.len().min(MAX_PIECES);
        slices.iter_mut().zip(&*pieces).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
        match local.try_write_vectored(&slices[..count]) {
            Ok(n) => advance(pieces, n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => local.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the first `n` bytes.
fn advance(pieces: &mut VecDeque<Bytes>, mut n: usize) {
    while let Some(piece) = pieces.front_mut() {
        if n < piece.len() {
            return piece.advance(n);
        }
        n -= piece.len();
        pieces.pop_front();
    }
}

/// Waits until the local connection is reset, which can also happen after its FIN was read.
#[cfg(any(target_os = "linux", target_os = "android"))]
async fn reset(local: &TcpStream) -> io::Error {
    match local.ready(Interest::ERROR).await {
        Ok(_) => local.take_error().ok().flatten().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()),
        Err(error) => error,
    }
}

/// Waits forever: other systems report a reset with the next write.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
async fn reset(_: &TcpStream) -> io::Error {
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_removed_from_the_front() {
        let all = || VecDeque::from([Bytes::from("abc"), Bytes::new(), Bytes::from("de")]);
        for n in 0..=5 {
            let mut pieces = all();
            advance(&mut pieces, n);
            let rest: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
            assert_eq!(rest, b"abcde"[n..]);
        }
    }

    #[test]
    fn max_pieces_and_max_gathered_bound_what_waits_for_a_program() {
        let gathered = |len: usize| {
            let mut pieces = VecDeque::new();
            let next = |max: usize| Poll::Ready(Ok::<_, StreamError>(Some(vec![0; len.min(max)].into())));
            assert!(matches!(poll_pieces(&mut pieces, next), Poll::Ready(Ok(false))));
            (pieces.len(), pieces.iter().map(Bytes::len).sum::<usize>())
        };
        assert_eq!(gathered(1), (MAX_PIECES, MAX_PIECES));
        assert_eq!(gathered(usize::MAX), (1, MAX_GATHERED));
        assert_eq!(gathered(MAX_GATHERED / 4 * 3), (2, MAX_GATHERED));
    }

    #[test]
    fn a_few_bytes_keep_no_buffer() {
        let mut buffer = BytesMut::with_capacity(READ);
        buffer.extend_from_slice(b"few");
        assert_eq!(taken(&mut buffer), "few");
        assert_eq!((buffer.len(), buffer.capacity()), (0, READ));
        buffer.resize(READ, 7);
        assert_eq!((taken(&mut buffer).len(), buffer.capacity()), (READ, 0));
    }
}
