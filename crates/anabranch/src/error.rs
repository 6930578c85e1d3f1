//! Errors of endpoints, connections, paths, streams and datagrams.

use std::io;
use std::net::SocketAddr;

use anabranch_transport::stream::ClosedStream;
use anabranch_transport::{self as core, ConnectionError, datagram};
use anabranch_wire::{InvalidSetting, VarInt};

/// Reason that an endpoint could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address cannot be bound, the socket cannot be used, or the system has no randomness.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A setting contradicts the protocol.
    #[error(transparent)]
    InvalidSetting(#[from] InvalidSetting),
}

impl From<EndpointError> for io::Error {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Io(error) => error,
            EndpointError::InvalidSetting(error) => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

/// Reason why a connection attempt could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// [`Endpoint::close`](crate::Endpoint::close) was called, or the endpoint's socket failed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// [`Endpoint::set_default_client_config`](crate::Endpoint::set_default_client_config) was not called.
    #[error("the endpoint has no client configuration")]
    NoClientConfig,
    /// The endpoint's socket cannot send to this address: the address is IPv6 and the socket is IPv4, the IP
    /// address is unspecified, or the port is 0. The error also occurs if no connection ID is left for the
    /// connection.
    #[error("the remote address {0} cannot be reached from the endpoint's socket")]
    InvalidRemoteAddress(SocketAddr),
    /// The local address of the connection cannot be bound.
    #[error("the local address cannot be used: {0}")]
    Socket(#[source] io::Error),
    /// The configuration or the server's name cannot be used.
    #[error(transparent)]
    Core(#[from] anabranch_transport::ConnectError),
}

/// Reason why none of several attempts succeeded; see
/// [`Endpoint::connect_any`](crate::Endpoint::connect_any). It is the error of the first attempt that failed
/// for another reason than a missing route, or else of the last attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// The attempt could not be started.
    #[error(transparent)]
    NotBegun(#[from] ConnectError),
    /// The handshake of the attempt failed.
    #[error(transparent)]
    Handshake(#[from] ConnectionError),
    /// There were no candidates to try.
    #[error("there are no addresses to try")]
    NoCandidates,
}

impl AttemptError {
    /// Returns whether the host has no route to the server.
    pub(crate) fn is_without_route(&self) -> bool {
        let Self::Handshake(ConnectionError::Unreachable(obstacle)) = self else { return false };
        matches!(obstacle.kind, io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable)
    }
}

/// Reason why [`Connection::export_keying_material`](crate::Connection::export_keying_material) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The handshake is not complete, so there are no secrets to export yet.
    #[error("the handshake is not complete")]
    HandshakeIncomplete,
    /// The output is too long: TLS exports at most 255 hash lengths at once (RFC 8446 §7.5).
    #[error("so many bytes cannot be exported at once")]
    TooLong,
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

/// Reason why [`Connection::open_path`](crate::Connection::open_path) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The core refused to open the path.
    #[error(transparent)]
    Refused(core::OpenPathError),
    /// The local address cannot be bound.
    #[error("the local address cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// The addresses belong to different families.
    #[error("{remote} cannot be reached from {local}")]
    Unreachable {
        /// Local address of the path.
        local: SocketAddr,
        /// Remote address of the path.
        remote: SocketAddr,
    },
    /// The peer did not respond on the path, or abandoned it at once.
    #[error("the peer does not answer on the path")]
    NoAnswer,
    /// The connection has ended.
    #[error("the connection is lost: {0}")]
    ConnectionLost(ConnectionError),
}

/// Reason why writing to a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer stopped the stream with this error code of its application (STOP_SENDING).
    #[error("the peer stopped the stream with code {0}")]
    Stopped(VarInt),
    /// The connection has ended.
    #[error("the connection is lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// This endpoint finished or reset the stream before.
    #[error("the stream is closed for writing")]
    ClosedStream,
}

/// Reason why reading from a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream with this error code of its application (RESET_STREAM).
    #[error("the peer reset the stream with code {0}")]
    Reset(VarInt),
    /// The connection has ended.
    #[error("the connection is lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// This endpoint stopped the stream before.
    #[error("the stream is closed for reading")]
    ClosedStream,
    /// [`RecvStream::read_unordered`](crate::RecvStream::read_unordered) was called before. From then on the
    /// stream cannot be read in order.
    #[error("the stream is read in any order")]
    IllegalOrderedRead,
}

/// Reason why [`RecvStream::read_exact`](crate::RecvStream::read_exact) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended after this many bytes.
    #[error("the stream ended after {0} bytes")]
    FinishedEarly(usize),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reason why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than the limit.
    #[error("the stream is longer than the limit")]
    TooLong,
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reason why a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer does not support datagrams (RFC 9221), or the HTTP request's method has none (RFC 9297 §2).
    #[error("the peer does not support datagrams")]
    UnsupportedByPeer,
    /// The message is longer than [`Connection::max_datagram_size`](crate::Connection::max_datagram_size).
    #[error("the message is too large for a datagram")]
    TooLarge,
    /// The queue of messages is full. [`Connection::send_datagram_wait`] waits for room.
    ///
    /// [`Connection::send_datagram_wait`]: crate::Connection::send_datagram_wait
    #[error("the datagram queue is full")]
    Blocked,
    /// The connection has ended.
    #[error("the connection is lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

impl From<ClosedStream> for WriteError {
    fn from(_: ClosedStream) -> Self {
        Self::ClosedStream
    }
}

impl SendDatagramError {
    /// Converts the core's error.
    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn of(error: datagram::SendDatagramError) -> Self {
        match error {
            datagram::SendDatagramError::TooLarge => Self::TooLarge,
            datagram::SendDatagramError::Blocked => Self::Blocked,
            _ => Self::UnsupportedByPeer,
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match error {
            WriteError::Stopped(_) => io::ErrorKind::BrokenPipe,
            WriteError::ConnectionLost(_) | WriteError::ClosedStream => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(_) | ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::IllegalOrderedRead => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
