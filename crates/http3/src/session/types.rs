//! Events and errors for users of a session.

use anabranch_wire::StreamId;

use crate::error::Code;
use crate::message::InvalidMessage;

/// Event of a session. Each event reports a change once. The methods of [`Session`](super::Session) return
/// the state itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer's SETTINGS have arrived.
    Settings,
    /// Server: requests have arrived. Call [`accept`](super::Session::accept) until it returns `None`.
    Request,
    /// Client: the header section of a final or interim response has arrived. Get it with
    /// [`response`](super::Session::response).
    Response(StreamId),
    /// The content can be read: bytes, the end or an error. The event is not repeated until reading has
    /// returned [`Blocked`](ReadError::Blocked).
    Readable(StreamId),
    /// Writing can continue after it was [`Blocked`](WriteError::Blocked).
    Writable(StreamId),
    /// The peer has stopped reading this endpoint's message (STOP_SENDING).
    Stopped(StreamId, Code),
    /// The peer's message is unusable. Reading it returns the reason.
    Failed(StreamId),
    /// An HTTP datagram has arrived for this request.
    Datagram(StreamId),
    /// Client: requests can be made again after one was [`Blocked`](RequestError::Blocked).
    Available,
    /// The peer has sent GOAWAY. It will accept no further requests (server) or make none (client).
    GoingAway,
}

/// Reason that nothing of the content was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has arrived. [`Event::Readable`] follows.
    #[error("nothing to read now")]
    Blocked,
    /// The message is complete and all of its content was read. Trailers may be available.
    #[error("the message has ended")]
    Finished,
    /// The peer reset the stream.
    #[error("reset by the peer: {0}")]
    Reset(Code),
    /// The peer's message violates HTTP. The stream was closed with this code.
    #[error("malformed message: {0}")]
    Malformed(Code),
    /// The server did not process the request, which may be repeated (RFC 9114 §4.1.1, §5.2).
    #[error("rejected by the server before it was processed")]
    Rejected,
    /// The request does not exist, or reading was stopped.
    #[error("the stream is closed for reading")]
    Closed,
}

/// Reason that nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Flow control permits nothing now. [`Event::Writable`] follows.
    #[error("no room for more now")]
    Blocked,
    /// The peer has stopped reading (STOP_SENDING).
    #[error("stopped by the peer: {0}")]
    Stopped(Code),
    /// The request does not exist, or the call does not match the progress of its message. For example, the
    /// message has ended, or its header section was not sent yet.
    #[error("the stream is closed for writing")]
    Closed,
    /// The message cannot be sent over HTTP/3.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
}

/// Reason that no request was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server's stream limit permits no further requests now. [`Event::Available`] follows.
    #[error("the server allows no more requests now")]
    Blocked,
    /// This connection accepts no further requests, because one of the endpoints has sent GOAWAY (RFC 9114
    /// §5.2).
    #[error("the server is going away")]
    GoingAway,
    /// The request cannot be sent over HTTP/3, or not until the peer's SETTINGS arrive.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
}

/// Error in the peer's bytes, by its scope.
#[derive(Debug)]
pub(super) enum Fault {
    /// Connection error: the connection must be closed.
    Connection(crate::Error),
    /// Stream error: the stream must be reset and stopped with this code.
    Stream(Code),
}

impl From<crate::Error> for Fault {
    fn from(error: crate::Error) -> Self {
        Self::Connection(error)
    }
}
