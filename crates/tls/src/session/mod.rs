//! TLS 1.3 handshake for QUIC (RFC 9001 §4). It consumes the peer's handshake bytes, and produces handshake
//! bytes and secrets.

mod client;
mod error;
mod keylog;
mod limits;
mod open;
mod provider;
mod retired;
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

pub use client::{ClientConfig, ClientConfigBuilder};
pub use error::{ConfigError, TlsError, TlsErrorKind};
pub use server::{ServerConfig, ServerConfigBuilder};
pub use ticket_keys::{MAX_TICKET_KEYS, TICKET_KEY_LEN, TicketKeys, TicketKeysError};

use crate::{EarlySecret, Secrets, Suite};
use keylog::SecretTap;
use limits::Limits;
use open::Open;
use provider::default_provider;
use retired::Retired;
use tickets::{VersionSessions, VersionTicketer};

/// Change of the encryption level. The bytes written after it belong to the new level.
#[derive(Debug)]
pub enum KeyChange {
    /// Handshake packets can be protected.
    Handshake(Secrets),
    /// 1-RTT packets can be protected.
    OneRtt(Secrets),
}

/// TLS session of one connection.
///
/// Pass the peer's CRYPTO data to [`read`](Self::read), in order. After creation and after every read, call
/// [`write`](Self::write) until it returns `None`.
pub struct Session {
    stage: Stage,
    side: Side,
    early_data: EarlyData,
}

/// State of a session.
enum Stage {
    Open(Box<Open>),
    Retired(Box<Retired>),
}

/// State of 0-RTT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlyData {
    /// The client did not offer 0-RTT.
    NotOffered,
    /// The client has offered 0-RTT and has no answer, or the server has not read the ClientHello.
    Unknown,
    Accepted,
    Rejected,
}

impl Session {
    /// Creates a client's session. Its ClientHello can be written at once.
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
        // This version only affects the labels of keys that are never used.
        let connection = quic::ClientConnection::new(Arc::new(inner), quic::Version::V1, name, params)?;
        let open = Open { connection: connection.into(), tap, early: None, tickets };
        let mut session = Self {
            stage: Stage::Open(Box::new(open)),
            side: Side::Client,
            early_data: EarlyData::NotOffered,
        };
        // Until the ServerHello arrives, rustls reports the cipher suite of the resumed session as the
        // negotiated one. Early data must be protected with that suite (RFC 8446 §4.2.11), so the secret is
        // taken now.
        if session.catch_early_secret() {
            session.early_data = EarlyData::Unknown;
        }
        Ok(session)
    }

    /// Creates a server's session, which waits for a ClientHello.
    ///
    /// `params` are the encoded transport parameters. Stored sessions are resumed only if none of the limits
    /// that a client remembers was higher then (RFC 9000 §7.4.1, RFC 9221 §3).
    pub fn server(config: &ServerConfig, params: Vec<u8>) -> Result<Self, ConfigError> {
        let tap = SecretTap::new(Arc::clone(&config.inner.key_log));
        let mut inner = (*config.inner).clone();
        inner.key_log = Arc::clone(&tap) as _;
        let version = config.version;
        let limits = Limits::of(&params);
        inner.session_storage = Arc::new(VersionSessions { inner: inner.session_storage, version, limits });
        inner.ticketer = Arc::new(VersionTicketer { inner: inner.ticketer, version });
        let connection = quic::ServerConnection::new(Arc::new(inner), quic::Version::V1, params)?;
        let open = Open { connection: connection.into(), tap, early: None, tickets: None };
        Ok(Self { stage: Stage::Open(Box::new(open)), side: Side::Server, early_data: EarlyData::Unknown })
    }

    fn open(&self) -> Option<&Open> {
        match &self.stage {
            Stage::Open(open) => Some(open),
            Stage::Retired(_) => None,
        }
    }

    fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.stage {
            Stage::Open(open) => Some(open),
            Stage::Retired(_) => None,
        }
    }

    /// Frees the state of the TLS library once it is not needed any more: on a server, after the handshake is complete and
    /// everything is written. From then on, [`read`](Self::read) fails: a client may send no further message (RFC 9001 §6, RFC
    /// 8446 §4.6). Keying material can still be exported.
    pub fn retire(&mut self) {
        if let Stage::Open(open) = &self.stage
            && self.side.is_server()
            && !open.connection.is_handshaking()
        {
            self.stage = Stage::Retired(Box::new(Retired::new(open)));
        }
    }

    /// Sets the version that the server has negotiated; for clients. New tickets belong to this version (RFC
    /// 9369 §5).
    pub fn set_version(&mut self, version: Version) {
        if let Some(tickets) = self.open().and_then(|open| open.tickets.as_ref()) {
            tickets.set_version(version);
        }
    }

    /// Rejects 0-RTT even if the ticket permits it; for servers. This must be called before the ClientHello
    /// is read.
    pub fn reject_early_data(&mut self) {
        if self.early_data == EarlyData::Unknown
            && let Some(Open { connection: Connection::Server(server), .. }) = self.open_mut()
        {
            server.reject_early_data();
        }
    }

    /// Reads the peer's handshake bytes, which must be in order. Each call may contain bytes of one
    /// encryption level only.
    pub fn read(&mut self, data: &[u8]) -> Result<(), TlsError> {
        let open = self.open_mut().ok_or_else(TlsError::unexpected_message)?;
        if let Some(tickets) = open.tickets_after_handshake() {
            tickets.set_chosen(open.connection.alpn_protocol());
        }
        open.connection.read_hs(data).map_err(|error| TlsError::new(&error, &open.connection))?;
        if let Some(tickets) = open.tickets_after_handshake() {
            tickets.forget_other(open.connection.alpn_protocol());
        }
        if self.early_data == EarlyData::Unknown {
            self.resolve_early_data();
        }
        Ok(())
    }

    /// Appends handshake bytes of the current encryption level to `out`. Returns the secrets of the next
    /// level if the level changes after these bytes.
    ///
    /// After a change, call this again: there may be bytes for the new level.
    #[expect(
        clippy::expect_used,
        reason = "rustls logs both secrets of a level before it announces the level"
    )]
    pub fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        let side = self.side;
        let open = self.open_mut()?;
        let change = open.connection.write_hs(out)?;
        let suite = open.suite().expect("a configured suite");
        Some(match change {
            quic::KeyChange::Handshake { .. } => {
                KeyChange::Handshake(open.tap.take_handshake(side, suite).expect("handshake secrets"))
            }
            quic::KeyChange::OneRtt { .. } => {
                KeyChange::OneRtt(open.tap.take_traffic(side, suite).expect("traffic secrets"))
            }
        })
    }

    /// Returns the secret of 0-RTT packets on the first call, and `None` afterwards. A client has it after
    /// creation if it may send 0-RTT. A server has it after it has read the ClientHello, if it accepts 0-RTT.
    pub fn early_secret(&mut self) -> Option<EarlySecret> {
        self.open_mut()?.early.take()
    }

    /// Returns whether 0-RTT was accepted; `None` if this is not decided yet, or if the client did not offer
    /// it.
    pub fn early_data_accepted(&self) -> Option<bool> {
        match self.early_data {
            EarlyData::NotOffered | EarlyData::Unknown => None,
            EarlyData::Accepted => Some(true),
            EarlyData::Rejected => Some(false),
        }
    }

    /// Returns whether the server has chosen another application protocol than that of the session that this
    /// client resumes or wanted to resume; `false` before the handshake is complete. The early data was then for
    /// another protocol (RFC 9001 §4.6.2). With a wrapped rustls configuration the earlier protocol is unknown,
    /// and this is `false`.
    pub fn has_other_alpn(&self) -> bool {
        let tickets = self.open().and_then(Open::tickets_after_handshake);
        tickets.is_some_and(|tickets| tickets.has_resumed_other(self.alpn()))
    }

    /// Returns the peer's encoded transport parameters.
    ///
    /// If a client resumes a session, these are the stored parameters for 0-RTT, until the server's
    /// EncryptedExtensions are read. They are authenticated only once the handshake is complete.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        match &self.stage {
            Stage::Open(open) => open.connection.quic_transport_parameters(),
            Stage::Retired(retired) => retired.parameters.as_deref(),
        }
    }

    /// Returns whether the handshake is incomplete (RFC 9001 §4.1.1).
    pub fn is_handshaking(&self) -> bool {
        self.open().is_some_and(|open| open.connection.is_handshaking())
    }

    /// Returns the negotiated application protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.stage {
            Stage::Open(open) => open.connection.alpn_protocol(),
            Stage::Retired(retired) => retired.alpn.as_deref(),
        }
    }

    /// Returns the host name that the client requested; for servers.
    pub fn server_name(&self) -> Option<&str> {
        match &self.stage {
            Stage::Open(open) => open.server_name(),
            Stage::Retired(retired) => retired.server_name.as_deref(),
        }
    }

    /// Returns the peer's certificate chain, beginning with its own certificate.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.stage {
            Stage::Open(open) => open.connection.peer_certificates(),
            Stage::Retired(retired) => retired.certificates.as_deref(),
        }
    }

    /// Returns whether this session resumes an earlier one.
    pub fn is_resumed(&self) -> bool {
        match &self.stage {
            Stage::Open(open) => open.is_resumed(),
            Stage::Retired(retired) => retired.is_resumed,
        }
    }

    /// Fills `out` with exported keying material for the application (RFC 8446 §7.5). The handshake must be
    /// complete.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), TlsError> {
        match &self.stage {
            Stage::Open(open) => {
                let exported = open.connection.export_keying_material(out, label, context);
                exported.map(drop).map_err(|error| TlsError::internal(&error))
            }
            Stage::Retired(retired) => {
                let failed = || TlsError::internal(&rustls::Error::General("export not possible".into()));
                retired.export(out, label, context).ok_or_else(failed)
            }
        }
    }

    /// Returns the negotiated cipher suite. If a client resumes a session, this is the suite of that session
    /// until the ServerHello is read.
    pub fn suite(&self) -> Option<Suite> {
        match &self.stage {
            Stage::Open(open) => open.suite(),
            Stage::Retired(retired) => retired.suite,
        }
    }

    fn resolve_early_data(&mut self) {
        let Some(open) = self.open() else { return };
        self.early_data = match &open.connection {
            Connection::Client(client) if client.is_early_data_accepted() => EarlyData::Accepted,
            Connection::Client(client) if !client.is_handshaking() => EarlyData::Rejected,
            Connection::Client(_) => EarlyData::Unknown,
            // The key log receives the secret for every resumption, but rustls has keys only if it accepts
            // early data.
            Connection::Server(server) if server.zero_rtt_keys().is_some() => EarlyData::Accepted,
            Connection::Server(_) if open.tap.has_handshake() => EarlyData::Rejected,
            Connection::Server(_) => EarlyData::Unknown,
        };
        if self.side.is_server() && self.early_data == EarlyData::Accepted {
            self.catch_early_secret();
        }
    }

    fn catch_early_secret(&mut self) -> bool {
        let Some(open) = self.open_mut() else { return false };
        let early = open.suite().zip(open.tap.take_early());
        open.early = early.map(|(suite, secret)| EarlySecret { suite, secret });
        open.early.is_some()
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

/// Checks that packet protection supports every TLS 1.3 cipher suite of the provider.
fn check_suites(provider: &CryptoProvider) -> Result<(), ConfigError> {
    let mut suites = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some()).peekable();
    let usable = suites.peek().is_some() && suites.all(|&suite| Suite::from_rustls(suite).is_some());
    usable.then_some(()).ok_or(ConfigError::Suites)
}
