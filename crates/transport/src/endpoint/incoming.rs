//! A client that wants a connection which nobody has accepted yet.

use std::net::SocketAddr;

use anabranch_tls::initial_keys;
use anabranch_wire::{
    ConnectionId, Ecn, Format, PacketKind, PathId, Protected, Side, Version, decode_packet_number,
};

use super::address_token::Proof;
use crate::datagram_io::{Datagram, FourTuple};

/// Bytes of a client's first datagram that are kept; coalesced packets beyond are dropped.
pub const MAX_FIRST_DATAGRAM: usize = 4_096;
/// Bytes of further datagrams, and of what it takes to keep them, for a client whose address is not
/// validated.
pub const MAX_BUFFERED_UNVALIDATED: usize = 4_608;
/// The same for one whose address is validated.
pub const MAX_BUFFERED_VALIDATED: usize = 16_384;

/// A client's first Initial, authentic as far as an Initial can be. It counts against `max_incoming` until it
/// is given back to the router with one of the verbs `accept`, `refuse`, `retry` and `ignore`.
#[derive(Debug)]
#[must_use = "an incoming connection must be accepted, refused, retried or ignored"]
pub struct Incoming {
    /// The router's place for it.
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
    /// Destination Connection ID of the client's very first Initial, if the client answers a Retry.
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

    /// Returns both addresses.
    pub fn tuple(&self) -> FourTuple {
        self.hello.tuple
    }

    /// Returns whether a token proved that the client is at its address.
    pub fn address_validated(&self) -> bool {
        self.hello.validated
    }

    /// Returns whether the client may still be sent a Retry; it follows only one.
    pub fn may_retry(&self) -> bool {
        self.hello.retried.is_none()
    }

    /// Returns the version of the Initial.
    pub fn version(&self) -> Version {
        self.hello.version
    }

    /// Returns the Destination Connection ID of the client's very first Initial.
    pub fn original_dcid(&self) -> ConnectionId {
        self.hello.retried.unwrap_or(self.hello.dcid)
    }
}

/// Values that a server connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The server's, already routed.
    pub local_cid: ConnectionId,
    /// The source connection ID of the Retry, if there was one (`retry_source_connection_id`).
    pub retry_scid: Option<ConnectionId>,
    /// `true` if the client's address is validated (RFC 9000 §8.1).
    pub address_validated: bool,
    /// Addresses of the first path.
    pub tuple: FourTuple,
}

/// A datagram kept for later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDatagram {
    /// Addresses that the datagram came from and to.
    pub tuple: FourTuple,
    /// Its ECN codepoint.
    pub ecn: Option<Ecn>,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

impl StoredDatagram {
    pub(super) fn copy(datagram: &Datagram<'_>, len: usize) -> Self {
        let bytes = datagram.payload[..len.min(datagram.payload.len())].to_vec();
        Self { tuple: datagram.tuple, ecn: datagram.ecn, bytes }
    }

    /// Returns the stored datagram in the form of one that arrives now.
    pub fn as_datagram(&mut self) -> Datagram<'_> {
        Datagram { tuple: self.tuple, ecn: self.ecn, payload: &mut self.bytes }
    }
}

/// Further datagrams of a client that waits, 0-RTT data mostly.
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

    /// Keeps a datagram if it comes from the same client and there is room.
    pub(super) fn push(&mut self, datagram: &Datagram<'_>) -> bool {
        let limit = if self.validated { MAX_BUFFERED_VALIDATED } else { MAX_BUFFERED_UNVALIDATED };
        let cost = datagram.payload.len() + size_of::<StoredDatagram>();
        let fits = self.bytes + cost <= limit && datagram.tuple == self.tuple;
        if fits {
            self.bytes += cost;
            self.datagrams.push(StoredDatagram::copy(datagram, datagram.payload.len()));
        }
        fits
    }
}

/// Returns whether the Initial at the front of `datagram` was sealed by a sender that knew its connection ID.
/// This check keeps corrupted packets from creating state; `datagram` is left unchanged.
pub(super) fn is_authentic(format: &Format, datagram: &[u8], header: &Protected) -> bool {
    let mut packet = datagram[..header.end].to_vec();
    let keys = initial_keys(format, &header.dcid, Side::Server).remote;
    let Some(sample) = format.sample(&packet, PacketKind::Initial, header.pn_offset) else { return false };
    let unmasked =
        format.unmask(&mut packet, PacketKind::Initial, header.pn_offset, &keys.header.mask(&sample));
    let pn = decode_packet_number(None, unmasked.truncated_pn, unmasked.pn_bits);
    keys.packet.open(PathId::ZERO, pn, unmasked.header_len, &mut packet).is_ok()
}
