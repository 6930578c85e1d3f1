//! Events and errors that users of a session see.

use anabranch_wire::StreamId;

use crate::error::Code;
use crate::message::InvalidMessage;

/// Something happened. Each event tells of a change, once; the state itself is asked for with the methods of
/// [`Session`](super::Session).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's SETTINGS have arrived.
    Settings,
    /// Server: there are requests; [`accept`](super::Session::accept) them until there are no more.
    Request,
    /// Client: the head of a response has arrived, an interim one perhaps; take them with
    /// [`response`](super::Session::response).
    Response(StreamId),
    /// Reading the body gives something: bytes, the end or an error. Not repeated until reading was
    /// [`Blocked`](ReadError::Blocked).
    Readable(StreamId),
    /// Writing, which was [`Blocked`](WriteError::Blocked), may go on.
    Writable(StreamId),
    /// The peer does not want the rest of what this end sends.
    Stopped(StreamId, Code),
    /// The message that the peer sent is of no use; reading tells why.
    Failed(StreamId),
    /// An HTTP datagram arrived for this request.
    Datagram(StreamId),
    /// Client: requests may be made again, after one was [`Blocked`](RequestError::Blocked).
    Available,
    /// The peer will not take or make requests any longer.
    GoingAway,
}

/// Reason that nothing was read of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing has arrived; [`Event::Readable`] will tell.
    #[error("nothing to read now")]
    Blocked,
    /// The message is whole: everything has been read, trailers may be there.
    #[error("the message has ended")]
    Finished,
    /// The peer gave up sending.
    #[error("reset by the peer: {0}")]
    Reset(Code),
    /// The peer's message breaks the rules of HTTP; the stream was ended with this code.
    #[error("malformed message: {0}")]
    Malformed(Code),
    /// The server did not process the request; it may be made again (RFC 9114 §4.1.1, §5.2).
    #[error("rejected by the server before it was processed")]
    Rejected,
    /// There is no such request, or its reading was stopped.
    #[error("the stream is closed for reading")]
    Closed,
}

/// Reason that nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No room now; [`Event::Writable`] will tell.
    #[error("no room for more now")]
    Blocked,
    /// The peer does not want the rest.
    #[error("stopped by the peer: {0}")]
    Stopped(Code),
    /// There is no such request, or its sending half is over or not that far.
    #[error("the stream is closed for writing")]
    Closed,
    /// The message cannot be sent over HTTP/3.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
}

/// Reason that no request was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server allows no more requests now; [`Event::Available`] will tell.
    #[error("the server allows no more requests now")]
    Blocked,
    /// The server takes no more requests on this connection (RFC 9114 §5.2).
    #[error("the server is going away")]
    GoingAway,
    /// The request cannot be sent over HTTP/3, or not before the peer's SETTINGS are known.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
}

/// Consequence of a fault in a peer's bytes.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection is to be closed.
    Connection(crate::Error),
    /// The stream is to be given up with this code.
    Stream(Code),
}

impl From<crate::Error> for Fault {
    fn from(error: crate::Error) -> Self {
        Self::Connection(error)
    }
}
