//! State of the handshake, and of the packet number spaces that only the handshake uses.

use anabranch_tls::{ClientConfig as TlsClientConfig, Session};
use anabranch_wire::{ConnectionId, SpaceId, Time, TransportParameters};
use bytes::Bytes;

use super::{AckBudget, CryptoStream, Remembered};
use crate::endpoint::Waiting;
use crate::space::Received;

/// State of a packet number space that only the handshake uses.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) crypto: CryptoStream,
    pub(crate) received: Received,
    /// Rate limit of ACK-only packets.
    pub(crate) acks: AckBudget,
    pub(crate) next_number: u64,
    pub(crate) largest_acked: Option<u64>,
}

/// Initial and Handshake packet number spaces. They take memory from the first use until both are discarded.
#[derive(Debug, Default)]
pub(crate) struct Levels(Option<Box<[Level; 2]>>);

impl Levels {
    /// Returns the Initial or the Handshake space; `None` if they are not in use.
    pub(crate) fn get(&self, index: usize) -> Option<&Level> {
        self.0.as_ref().map(|levels| &levels[index])
    }

    /// Returns the Initial or the Handshake space, and creates both if they are not in use.
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Level {
        &mut self.0.get_or_insert_default()[index]
    }

    /// Returns the spaces in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.0.iter().flat_map(|levels| levels.iter())
    }

    /// Returns the spaces in use.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        self.0.iter_mut().flat_map(|levels| levels.iter_mut())
    }

    /// Discards one space, whose keys are gone. The Handshake space is the last one (RFC 9001 §4.9).
    pub(crate) fn discard(&mut self, index: usize) {
        match (&mut self.0, index) {
            (Some(levels), 0) => levels[0] = Level::default(),
            (levels, _) => *levels = None,
        }
    }
}

impl Level {
    /// Returns whether an ACK is due.
    pub(crate) fn owes_ack(&self, now: Time) -> bool {
        self.received.ack.is_due(now)
    }

    /// Returns the time at which a delayed ACK is due.
    pub(crate) fn ack_timeout(&self) -> Option<Time> {
        self.acks.held_until().or_else(|| self.received.ack.ack_deadline())
    }
}

/// State of the handshake.
#[derive(Default)]
pub(crate) struct Handshake {
    /// TLS session; `None` until a server has received the whole ClientHello, and after the connection has
    /// ended.
    pub(crate) session: Option<Session>,
    /// A client's configuration, kept while another first flight may be necessary.
    pub(crate) client: Option<Box<ClientStart>>,
    /// Bytes of the ClientHello that a server has received so far.
    pub(crate) hello: Vec<u8>,
    /// Memory accounting of the ClientHello while the client's address is not validated.
    pub(crate) waiting: Option<Waiting>,
    /// CRYPTO data in 1-RTT packets, that is, session tickets.
    pub(crate) data_crypto: CryptoStream,
    /// Level from which TLS reads, and level at which it writes.
    pub(crate) read_level: Option<SpaceId>,
    pub(crate) write_level: Option<SpaceId>,
    /// This end's transport parameters, until the handshake is complete.
    pub(crate) local_parameters: Option<Box<TransportParameters>>,
    pub(crate) peer_parameters: Option<TransportParameters>,
    /// Destination Connection ID of the client's first Initial.
    pub(crate) original_dcid: ConnectionId,
    /// Source Connection ID of the server's Retry.
    pub(crate) retry_scid: Option<ConnectionId>,
    /// Source Connection ID of the peer's first Initial. A client learns it from that packet, and a server
    /// connection when it is created.
    pub(crate) peer_scid: Option<ConnectionId>,
    /// Token in every Initial of a client.
    pub(crate) token: Bytes,
    /// Negotiated application protocol.
    pub(crate) alpn: Option<Bytes>,
    pub(crate) progress: Progress,
    /// Remembered limits under which early data was sent.
    pub(crate) remembered: Option<Box<Remembered>>,
    /// Time until which a server still accepts 0-RTT packets after 1-RTT keys are available (RFC 9001
    /// §4.9.3).
    pub(crate) early_until: Option<Time>,
    /// `true` if this end's connection IDs must be replaced once the handshake is confirmed.
    pub(crate) outdated_cids: bool,
}

/// Minimum step by which the memory of a ClientHello grows, in bytes.
pub(crate) const HELLO_STEP: usize = 1024;

/// Inputs from which a client starts again with another version.
pub(crate) struct ClientStart {
    pub(crate) tls: TlsClientConfig,
    pub(crate) server_name: String,
}

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// `true` if the handshake is complete on this side (RFC 9001 §4.1.1).
    pub(crate) complete: bool,
    /// `true` if the handshake is confirmed (RFC 9001 §4.1.2).
    pub(crate) confirmed: bool,
    /// `true` if the client has followed a Version Negotiation packet (RFC 9368 §4).
    pub(crate) negotiated: bool,
    /// `true` if the client has processed a packet of the server. Retry and Version Negotiation are then
    /// ignored.
    pub(crate) heard: bool,
    /// `true` if the application was notified that ALPN and server name are known.
    pub(crate) data_reported: bool,
}
