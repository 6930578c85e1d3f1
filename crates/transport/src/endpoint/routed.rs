//! Entries of a router.

use std::net::SocketAddr;

use anabranch_wire::ConnectionId;

use crate::datagram_io::FourTuple;

/// Table key of a connection that uses zero-length connection IDs. It omits the local IP address, which may
/// become known only later.
pub(super) type TupleKey = (SocketAddr, u16);

pub(super) fn tuple_key(tuple: &FourTuple) -> TupleKey {
    (tuple.remote, tuple.local.port())
}

/// Routing entries of one connection, removed when it ends.
#[derive(Debug, Default)]
pub(super) struct Routed {
    pub(super) cids: Vec<ConnectionId>,
    pub(super) reset_tokens: Vec<[u8; 16]>,
    pub(super) tuples: Vec<TupleKey>,
    /// `true` for a server connection during its handshake.
    pub(super) handshaking: bool,
}
