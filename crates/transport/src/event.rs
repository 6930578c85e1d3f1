//! Events that a connection reports to its application and to its endpoint.

use anabranch_wire::{ConnectionId, PathId, ResetToken};
use bytes::Bytes;

use crate::datagram_io::FourTuple;
use crate::error::ConnectionError;
use crate::path::PathState;
use crate::stream::StreamEvent;

/// For the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// TLS knows the peer's name and protocol; on a server, 0.5-RTT data may be sent.
    HandshakeDataReady,
    /// The handshake is complete (RFC 9001 §4.1.1): streams may be used in both directions.
    Connected {
        /// `true` if early data was accepted, if any was sent.
        early_data_accepted: bool,
    },
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
    /// Something about streams.
    Stream(StreamEvent),
    /// A DATAGRAM arrived after the queue was empty.
    DatagramReceived,
    /// DATAGRAMs may be queued again after [`crate::datagram::SendDatagramError::Blocked`].
    DatagramsUnblocked,
    /// A token for the next connection to this server (RFC 9000 §8.1.3).
    NewToken(Bytes),
    /// A path now runs between other addresses: migration, NAT rebinding or preferred address, validated.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its new addresses.
        tuple: FourTuple,
    },
    /// A path was opened and the peer has answered on it: data may be sent (RFC 10069).
    PathOpened(PathId),
    /// An open path began to fail or works again, or one of the ends made it a backup or took that back.
    PathState {
        /// The path.
        path: PathId,
        /// The path's new state.
        state: PathState,
    },
    /// Client: the main path has owed an answer for a probe timeout and no other path works; see
    /// [`Connection::watch_silence`](crate::Connection::watch_silence). Comes again with each probe timeout.
    PathSilent(PathId),
    /// Client: [`Connection::open_path`](crate::Connection::open_path) failed for want of a path ID or a
    /// connection ID, and the server has sent one since.
    PathsAvailable,
    /// Client: the server has announced or withdrawn further addresses of its own.
    ServerAddresses,
    /// A path was given up, here or by the peer.
    PathAbandoned {
        /// The path.
        path: PathId,
        /// Error code: one of RFC 10069 §5, or the application's.
        code: u64,
    },
    /// The connection has ended; no event follows.
    Closed(ConnectionError),
}

/// For the endpoint that routes datagrams to connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// Datagrams to this connection ID belong to the connection from now on.
    CidIssued(ConnectionId),
    /// This connection ID is not in use any longer.
    CidRetired(ConnectionId),
    /// Datagrams between these addresses belong to the connection, which has no connection IDs to find it by.
    TupleAdded(FourTuple),
    /// They belong to it no longer.
    TupleRemoved(FourTuple),
    /// A datagram that ends in this token is a stateless reset of the connection.
    ResetTokenAdded(ResetToken),
    /// The token is not in use any longer.
    ResetTokenRemoved(ResetToken),
    /// A server connection's client address has been validated, or its handshake is over, so that it leaves
    /// the count of those that wait.
    HandshakeOver,
    /// Nothing is to be routed to the connection any longer and it may be dropped.
    Drained,
}
