//! Incoming connections that have not been accepted yet.

use std::net::SocketAddr;

use anabranch_tls::{Keys, initial_keys};
use anabranch_wire::{
    ConnectionId, Ecn, Format, PacketKind, PathId, Protected, Side, Version, decode_packet_number,
};

use super::address_token::Proof;
use crate::datagram_io::{Datagram, FourTuple};

/// Maximum number of bytes kept of a client's first datagram. Of a larger datagram only the Initial is kept.
pub const MAX_FIRST_DATAGRAM: usize = 4_096;
/// Maximum memory for further datagrams of a client whose address is not validated, in bytes, bookkeeping
/// included.
pub const MAX_BUFFERED_UNVALIDATED: usize = 4_608;
/// Maximum memory for further datagrams of a client whose address is validated, in bytes, bookkeeping
/// included.
pub const MAX_BUFFERED_VALIDATED: usize = 16_384;

/// A client's first Initial, authenticated as far as an Initial can be. It counts against `max_incoming`
/// until it is passed back to the router with `refuse`, `retry` or `ignore`. After `accept`, the connection
/// counts until its handshake is complete.
#[derive(Debug)]
#[must_use = "an incoming connection must be accepted, refused, retried or ignored"]
pub struct Incoming {
    /// Index in the router's table of incoming connections.
    pub(super) key: usize,
    pub(super) hello: Box<Hello>,
    pub(super) first: StoredDatagram,
}

/// Contents of a client's first Initial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) tuple: FourTuple,
    pub(super) version: Version,
    /// Destination Connection ID of the Initial.
    pub(super) dcid: ConnectionId,
    /// The client's own connection ID.
    pub(super) scid: ConnectionId,
    /// Destination Connection ID of the client's first Initial before the Retry, if the client has followed
    /// one.
    pub(super) retried: Option<ConnectionId>,
    pub(super) validated: bool,
}

impl Hello {
    pub(super) fn new(tuple: FourTuple, version: Version, header: &Protected, proof: Proof) -> Self {
        let retried = match proof {
            Proof::Retried(original_dcid) => Some(original_dcid),
            _ => None,
        };
        let validated = matches!(proof, Proof::Address | Proof::Retried(_));
        Self { tuple, version, dcid: header.dcid, scid: header.scid, retried, validated }
    }
}

impl Incoming {
    /// Returns the client's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.hello.tuple.remote
    }

    /// Returns the client's and the server's address.
    pub fn tuple(&self) -> FourTuple {
        self.hello.tuple
    }

    /// Returns whether a token validated the client's address.
    pub fn address_validated(&self) -> bool {
        self.hello.validated
    }

    /// Returns whether the client may be sent a Retry. A client follows only one (RFC 9000 §17.2.5.2).
    pub fn may_retry(&self) -> bool {
        self.hello.retried.is_none()
    }

    /// Returns the version of the Initial.
    pub fn version(&self) -> Version {
        self.hello.version
    }

    /// Returns the Destination Connection ID of the client's very first Initial, before any Retry.
    pub fn original_dcid(&self) -> ConnectionId {
        self.hello.retried.unwrap_or(self.hello.dcid)
    }
}

/// Initial values of a server connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStart {
    /// Version of the client's Initial.
    pub version: Version,
    /// Destination Connection ID of the Initial; the Initial keys are derived from it.
    pub initial_dcid: ConnectionId,
    /// Destination Connection ID of the client's very first Initial, before a Retry
    /// (`original_destination_connection_id`).
    pub original_dcid: ConnectionId,
    /// The client's connection ID.
    pub peer_cid: ConnectionId,
    /// The server's connection ID, for which a route already exists.
    pub local_cid: ConnectionId,
    /// Source Connection ID of the Retry, if one was sent (`retry_source_connection_id`).
    pub retry_scid: Option<ConnectionId>,
    /// `true` if the client's address is validated (RFC 9000 §8.1).
    pub address_validated: bool,
    /// Addresses of the first path.
    pub tuple: FourTuple,
}

/// A datagram stored for later processing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDatagram {
    /// Addresses of the datagram.
    pub tuple: FourTuple,
    /// ECN codepoint; `None` for Not-ECT.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

impl StoredDatagram {
    /// Copies a datagram.
    pub fn copy(datagram: &Datagram<'_>) -> Self {
        Self::copy_front(datagram, datagram.payload.len())
    }

    /// Copies the first `len` bytes of a datagram.
    pub(super) fn copy_front(datagram: &Datagram<'_>, len: usize) -> Self {
        let bytes = datagram.payload[..len.min(datagram.payload.len())].to_vec();
        Self { tuple: datagram.tuple, ecn: datagram.ecn, bytes }
    }

    /// Returns the stored datagram in the form of a received one.
    pub fn as_datagram(&mut self) -> Datagram<'_> {
        Datagram { tuple: self.tuple, ecn: self.ecn, payload: &mut self.bytes }
    }
}

/// Further datagrams of a client whose connection is not accepted yet; most contain 0-RTT packets.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) tuple: FourTuple,
    pub(super) dcid: ConnectionId,
    validated: bool,
    bytes: usize,
    pub(super) datagrams: Vec<StoredDatagram>,
}

impl Buffer {
    pub(super) fn new(hello: &Hello) -> Self {
        Self {
            tuple: hello.tuple,
            dcid: hello.dcid,
            validated: hello.validated,
            bytes: 0,
            datagrams: Vec::new(),
        }
    }

    /// Stores a datagram if it has the client's addresses and there is room. Returns whether it was stored.
    pub(super) fn push(&mut self, datagram: &Datagram<'_>) -> bool {
        let limit = if self.validated { MAX_BUFFERED_VALIDATED } else { MAX_BUFFERED_UNVALIDATED };
        let cost = datagram.payload.len() + size_of::<StoredDatagram>();
        let fits = self.bytes + cost <= limit && datagram.tuple == self.tuple;
        if fits {
            self.bytes += cost;
            self.datagrams.push(StoredDatagram::copy(datagram));
        }
        fits
    }
}

/// Returns the keys derived from the Destination Connection ID of the Initial at the front of `datagram`, if they decrypt it. The
/// check keeps corrupted packets from creating state. `datagram` is left unchanged.
pub(super) fn authentic_keys(format: &Format, datagram: &[u8], header: &Protected) -> Option<Box<Keys>> {
    let mut packet = datagram[..header.end].to_vec();
    let keys = Box::new(initial_keys(format, &header.dcid, Side::Server));
    let remote = &keys.remote;
    let sample = format.sample(&packet, PacketKind::Initial, header.pn_offset)?;
    let mask = remote.header.mask(&sample);
    let unmasked = format.unmask(&mut packet, PacketKind::Initial, header.pn_offset, &mask);
    let pn = decode_packet_number(None, unmasked.truncated_pn, unmasked.pn_bits);
    let is_authentic = remote.packet.open(PathId::ZERO, pn, unmasked.header_len, &mut packet).is_ok();
    is_authentic.then_some(keys)
}
