//! Events that a connection reports to its application and to its endpoint.

use anabranch_wire::{ConnectionId, PathId, ResetToken, VarInt};
use bytes::Bytes;

use crate::datagram_io::FourTuple;
use crate::error::ConnectionError;
use crate::path::PathState;
use crate::stream::StreamEvent;

/// Event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// TLS has determined the peer's name and the application protocol. A server may send 0.5-RTT data.
    HandshakeDataReady,
    /// The handshake is complete (RFC 9001 §4.1.1): streams may be used in both directions.
    Connected {
        /// `true` if early data was sent and the server accepted it.
        early_data_accepted: bool,
    },
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
    /// Event of a stream.
    Stream(StreamEvent),
    /// A DATAGRAM frame arrived while the receive queue was empty.
    DatagramReceived,
    /// Messages may be queued again after [`crate::datagram::SendDatagramError::Blocked`].
    DatagramsUnblocked,
    /// A token for the next connection to this server (RFC 9000 §8.1.3).
    NewToken(Bytes),
    /// A path's addresses changed and the new ones are validated: migration, NAT rebinding or preferred
    /// address.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its new addresses.
        tuple: FourTuple,
    },
    /// A path was opened and the peer has responded on it: data may be sent (RFC 10069).
    PathOpened(PathId),
    /// An open path began to fail or recovered, or an endpoint changed its status between available and
    /// backup.
    PathState {
        /// The path.
        path: PathId,
        /// The path's new state.
        state: PathState,
    },
    /// Client: packets on the main path have remained unacknowledged for a probe timeout, and no other path
    /// works; see [`Connection::watch_silence`](crate::Connection::watch_silence). The event is repeated at
    /// each further probe timeout.
    PathSilent(PathId),
    /// Client: an earlier [`Connection::open_path`](crate::Connection::open_path) failed because no path ID
    /// or connection ID was available, and the server has issued one since.
    PathsAvailable,
    /// Client: the server has announced or withdrawn alternative addresses.
    ServerAddresses,
    /// A path was abandoned, by this endpoint or by the peer.
    PathAbandoned {
        /// The path.
        path: PathId,
        /// Error code of RFC 10069 §5, or of the application.
        code: VarInt,
    },
    /// The connection has ended; no event follows.
    Closed(ConnectionError),
}

/// Event for the endpoint, which routes datagrams to connections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// The connection issued this connection ID: datagrams that carry it belong to the connection.
    CidIssued(ConnectionId),
    /// The connection ID is no longer in use.
    CidRetired(ConnectionId),
    /// Datagrams between these addresses belong to the connection, which uses zero-length connection IDs.
    TupleAdded(FourTuple),
    /// Datagrams between these addresses no longer belong to the connection.
    TupleRemoved(FourTuple),
    /// A datagram that ends in this token is a stateless reset of the connection.
    ResetTokenAdded(ResetToken),
    /// The stateless reset token is no longer in use.
    ResetTokenRemoved(ResetToken),
    /// Server: the handshake is complete. The connection no longer counts as waiting
    /// ([`Router::waiting`](crate::Router::waiting)).
    HandshakeOver,
    /// The connection has drained: no more datagrams are routed to it, and it may be dropped.
    Drained,
}
