//! State of the handshake, and of the packet number spaces that only the handshake uses.

use anabranch_tls::{ClientConfig as TlsClientConfig, Session};
use anabranch_wire::{ConnectionId, SpaceId, Time, TransportParameters};
use bytes::Bytes;

use super::{AckBudget, CryptoStream, Remembered};
use crate::endpoint::Waiting;
use crate::space::Received;

/// One of the packet number spaces that only the handshake uses.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) crypto: CryptoStream,
    pub(crate) received: Received,
    /// Bound on acknowledgments in packets of their own.
    pub(crate) acks: AckBudget,
    pub(crate) next_number: u64,
    pub(crate) largest_acked: Option<u64>,
}

impl Level {
    /// Returns whether an acknowledgment is due.
    pub(crate) fn owes_ack(&self, now: Time) -> bool {
        self.received.ack.is_due(now)
    }

    /// Returns the time at which a held acknowledgment may leave.
    pub(crate) fn ack_timeout(&self) -> Option<Time> {
        self.acks.held_until().or_else(|| self.received.ack.ack_deadline())
    }
}

/// State of the handshake.
#[derive(Default)]
pub(crate) struct Handshake {
    /// `None` before a server has read the whole ClientHello, and after the connection has closed.
    pub(crate) session: Option<Session>,
    /// A client's configuration, kept as long as another first flight may be needed.
    pub(crate) client: Option<Box<ClientStart>>,
    /// The bytes of the ClientHello that a server has received.
    pub(crate) hello: Vec<u8>,
    /// The memory of that and of what waits behind it, while the client is not validated.
    pub(crate) waiting: Option<Waiting>,
    /// Handshake bytes in 1-RTT packets: tickets.
    pub(crate) data_crypto: CryptoStream,
    /// Level whose bytes TLS reads, and level that its own bytes go to.
    pub(crate) read_level: Option<SpaceId>,
    pub(crate) write_level: Option<SpaceId>,
    pub(crate) local_parameters: Option<TransportParameters>,
    pub(crate) peer_parameters: Option<TransportParameters>,
    /// Destination of the client's first Initial.
    pub(crate) original_dcid: ConnectionId,
    /// Source of the server's Retry.
    pub(crate) retry_scid: Option<ConnectionId>,
    /// Source of the peer's first Initial (a client learns it, a server is told).
    pub(crate) peer_scid: Option<ConnectionId>,
    /// Goes into every Initial of a client.
    pub(crate) token: Bytes,
    /// The application protocol, once it is negotiated.
    pub(crate) alpn: Option<Bytes>,
    pub(crate) progress: Progress,
    /// Parameters and settings under which early data was sent.
    pub(crate) remembered: Option<Box<Remembered>>,
    /// Until when 0-RTT packets are still read after 1-RTT keys are there (RFC 9001 §4.9.3).
    pub(crate) early_until: Option<Time>,
}

/// The memory of a ClientHello grows by so many bytes at least.
pub(crate) const HELLO_STEP: usize = 1024;

/// The inputs from which a client begins again with another version.
pub(crate) struct ClientStart {
    pub(crate) tls: TlsClientConfig,
    pub(crate) server_name: String,
}

/// Steps of the handshake that are done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// TLS is done on this side (RFC 9001 §4.1.1).
    pub(crate) complete: bool,
    /// RFC 9001 §4.1.2.
    pub(crate) confirmed: bool,
    /// A client reacted to a Version Negotiation packet (RFC 9368 §4).
    pub(crate) negotiated: bool,
    /// A packet of the server was processed, so that Retry and Version Negotiation come too late.
    pub(crate) heard: bool,
    /// `true` if the application was told of ALPN and server name.
    pub(crate) data_reported: bool,
}
