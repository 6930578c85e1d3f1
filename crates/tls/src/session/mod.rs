//! A TLS 1.3 handshake as QUIC carries it (RFC 9001 §4): bytes in, bytes and secrets out.

mod client;
mod error;
mod keylog;
mod server;
mod settings;
mod ticket_keys;
mod tickets;

use std::fmt;
use std::sync::Arc;

use anabranch_wire::{Side, Version};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::quic::{self, Connection};
use rustls::{CipherSuite, HandshakeKind};

pub use client::{ClientConfig, ClientConfigBuilder};
pub use error::{ConfigError, TlsError, TlsErrorKind};
pub use server::{ServerConfig, ServerConfigBuilder};
pub use ticket_keys::{MAX_TICKET_KEYS, TICKET_KEY_LEN, TicketKeys, TicketKeysError};

use crate::{EarlySecret, Secrets, Suite};
use keylog::SecretTap;
use tickets::{VersionSessions, VersionTicketer, VersionTickets};

/// The handshake moved on: what is written next belongs to a new encryption level.
#[derive(Debug)]
pub enum KeyChange {
    /// Handshake packets can be protected.
    Handshake(Secrets),
    /// 1-RTT packets can be protected.
    OneRtt(Secrets),
}

/// One connection's TLS session.
///
/// Feed it the CRYPTO bytes of the peer in order with [`read`](Self::read); after creation and after every
/// read, call [`write`](Self::write) until it returns `None`.
pub struct Session {
    connection: Connection,
    side: Side,
    tap: Arc<SecretTap>,
    /// 0-RTT's secret until the caller picks it up.
    early: Option<EarlySecret>,
    early_data: EarlyData,
    /// A client's tickets, to be told the negotiated version.
    tickets: Option<Arc<VersionTickets>>,
}

/// State of 0-RTT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlyData {
    /// A client did not offer it.
    NotOffered,
    /// A client offered it and waits; a server has not read the ClientHello.
    Unknown,
    Accepted,
    Rejected,
}

impl Session {
    /// Returns a client's session; its ClientHello waits to be written.
    ///
    /// `params` are the encoded transport parameters.
    pub fn client(config: &ClientConfig, server_name: &str, params: Vec<u8>) -> Result<Self, ConfigError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| ConfigError::ServerName(server_name.to_owned()))?;
        let tap = SecretTap::new(Arc::clone(&config.inner.key_log));
        let mut inner = (*config.inner).clone();
        inner.key_log = Arc::clone(&tap) as _;
        let tickets = config.version_tickets();
        if let Some(tickets) = &tickets {
            inner.resumption = Resumption::store(Arc::clone(tickets) as _);
        }
        // The version given to rustls chooses labels of keys that are never used.
        let connection = quic::ClientConnection::new(Arc::new(inner), quic::Version::V1, name, params)?;
        let mut session = Self {
            connection: connection.into(),
            side: Side::Client,
            tap,
            early: None,
            early_data: EarlyData::NotOffered,
            tickets,
        };
        // rustls reports the suite of the resumed session as the negotiated one until the server has spoken,
        // and early data must be protected with that suite (RFC 8446 §4.2.11): so the secret is taken now.
        if session.catch_early_secret() {
            session.early_data = EarlyData::Unknown;
        }
        Ok(session)
    }

    /// Returns a server's session, which waits for a ClientHello.
    ///
    /// `params` are the encoded transport parameters.
    pub fn server(config: &ServerConfig, params: Vec<u8>) -> Result<Self, ConfigError> {
        let tap = SecretTap::new(Arc::clone(&config.inner.key_log));
        let mut inner = (*config.inner).clone();
        inner.key_log = Arc::clone(&tap) as _;
        let version = config.version;
        inner.session_storage = Arc::new(VersionSessions { inner: inner.session_storage, version });
        inner.ticketer = Arc::new(VersionTicketer { inner: inner.ticketer, version });
        let connection = quic::ServerConnection::new(Arc::new(inner), quic::Version::V1, params)?;
        Ok(Self {
            connection: connection.into(),
            side: Side::Server,
            tap,
            early: None,
            early_data: EarlyData::Unknown,
            tickets: None,
        })
    }

    /// Sets the version that the server has negotiated on a client: new tickets belong to that one (RFC 9369
    /// §5).
    pub fn set_version(&mut self, version: Version) {
        if let Some(tickets) = &self.tickets {
            tickets.set_version(version);
        }
    }

    /// Refuses 0-RTT on a server, whatever the ticket says; only before the ClientHello is read.
    pub fn reject_early_data(&mut self) {
        if let (Connection::Server(server), EarlyData::Unknown) = (&mut self.connection, self.early_data) {
            server.reject_early_data();
        }
    }

    /// Takes the peer's handshake bytes, in order; bytes of different encryption levels in different calls.
    pub fn read(&mut self, data: &[u8]) -> Result<(), TlsError> {
        self.connection.read_hs(data).map_err(|error| TlsError::new(&error, &self.connection))?;
        if self.early_data == EarlyData::Unknown {
            self.resolve_early_data();
        }
        Ok(())
    }

    /// Appends handshake bytes that belong to the current encryption level, then says whether that level
    /// changes.
    ///
    /// Call again after a change: there may be bytes for the new level.
    #[expect(
        clippy::expect_used,
        reason = "rustls logs both secrets of a level before it announces the level"
    )]
    pub fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        let change = self.connection.write_hs(out)?;
        let suite = self.suite().expect("a configured suite");
        Some(match change {
            quic::KeyChange::Handshake { .. } => {
                KeyChange::Handshake(self.tap.take_handshake(self.side, suite).expect("handshake secrets"))
            }
            quic::KeyChange::OneRtt { .. } => {
                KeyChange::OneRtt(self.tap.take_traffic(self.side, suite).expect("traffic secrets"))
            }
        })
    }

    /// Returns the secret of 0-RTT packets, once: on a client after creation if it may send them, on a server
    /// after the ClientHello was read if it accepts them.
    pub fn early_secret(&mut self) -> Option<EarlySecret> {
        self.early.take()
    }

    /// Returns whether 0-RTT was accepted; `None` as long as that is open, and on a client that did not offer
    /// it.
    pub fn early_data_accepted(&self) -> Option<bool> {
        match self.early_data {
            EarlyData::NotOffered | EarlyData::Unknown => None,
            EarlyData::Accepted => Some(true),
            EarlyData::Rejected => Some(false),
        }
    }

    /// Returns the peer's encoded transport parameters.
    ///
    /// A client that resumes has the remembered ones, for 0-RTT, until the server's EncryptedExtensions are
    /// read. Authenticated only when the handshake is complete.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.connection.quic_transport_parameters()
    }

    /// Returns whether the handshake is incomplete (RFC 9001 §4.1.1).
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns the negotiated application protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Returns the host name that the client asked for, on a server.
    pub fn server_name(&self) -> Option<&str> {
        match &self.connection {
            Connection::Client(_) => None,
            Connection::Server(server) => server.server_name(),
        }
    }

    /// Returns the peer's certificate chain, its own certificate first.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.peer_certificates()
    }

    /// Returns whether this session resumes an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Fills `out` with keying material for the application (RFC 8446 §7.5); needs a complete handshake.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), TlsError> {
        let exported = self.connection.export_keying_material(out, label, context);
        exported.map(drop).map_err(|error| TlsError::internal(&error))
    }

    /// Returns the negotiated suite; on a resuming client the resumed one until the server has spoken.
    pub fn suite(&self) -> Option<Suite> {
        self.connection.negotiated_cipher_suite().and_then(Suite::from_rustls)
    }

    fn resolve_early_data(&mut self) {
        self.early_data = match &self.connection {
            Connection::Client(client) if client.is_early_data_accepted() => EarlyData::Accepted,
            Connection::Client(_) if !self.is_handshaking() => EarlyData::Rejected,
            Connection::Client(_) => EarlyData::Unknown,
            // The secret is logged for every resumption; rustls keeps it only if it accepts early data.
            Connection::Server(server) if server.zero_rtt_keys().is_some() => EarlyData::Accepted,
            Connection::Server(_) if self.tap.has_handshake() => EarlyData::Rejected,
            Connection::Server(_) => EarlyData::Unknown,
        };
        if self.side.is_server() && self.early_data == EarlyData::Accepted {
            self.catch_early_secret();
        }
    }

    fn catch_early_secret(&mut self) -> bool {
        let early = self.suite().zip(self.tap.take_early());
        self.early = early.map(|(suite, secret)| EarlySecret { suite, secret });
        self.early.is_some()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("side", &self.side)
            .field("suite", &self.suite())
            .finish_non_exhaustive()
    }
}

/// Returns the suites of rustls with AES-128-GCM first: it costs less per byte than AES-256-GCM, its SHA-256
/// less per handshake than SHA-384, and it is as strong as the X25519 key exchange that it rests on.
fn default_provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    // Stable: the others keep their order.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// Checks that packets can be protected with every suite of TLS 1.3 that could be negotiated.
fn check_suites(provider: &CryptoProvider) -> Result<(), ConfigError> {
    let mut suites = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some()).peekable();
    let usable = suites.peek().is_some() && suites.all(|&suite| Suite::from_rustls(suite).is_some());
    usable.then_some(()).ok_or(ConfigError::Suites)
}

#[cfg(test)]
mod tests;
