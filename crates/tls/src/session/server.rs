//! TLS configuration of a server.

use std::sync::Arc;

use anabranch_wire::Version;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{KeyLog, NoKeyLog};

use super::settings::common_settings;
use super::{ConfigError, check_suites, default_provider};

/// Number of tickets that a server with stateless tickets sends. A client uses one for each attempt, even
/// while the server is unreachable.
const STATELESS_TICKETS: usize = 4;

/// Default maximum number of sessions that a server stores. A session takes about 300 bytes and is used only
/// once.
const DEFAULT_REMEMBERED_SESSIONS: usize = 4096;

/// Value of max_early_data_size, which permits any amount. QUIC limits early data by its own flow control
/// (RFC 9001 §4.6.1).
const QUIC_EARLY_DATA: u32 = 0xffff_ffff;

/// Configuration that a server's sessions share; cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) inner: Arc<rustls::ServerConfig>,
    pub(super) version: Version,
}

impl ServerConfig {
    /// Returns a builder of a configuration for TLS 1.3 that has no certificate yet.
    pub fn builder() -> ServerConfigBuilder {
        ServerConfigBuilder::new()
    }

    /// Returns the same configuration for connections that negotiated `version`; the default is version 1.
    ///
    /// Tickets are issued for and accepted in this version only (RFC 9369 §5).
    #[must_use]
    pub fn for_version(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }
}

/// Wraps a rustls configuration unchanged.
impl TryFrom<Arc<rustls::ServerConfig>> for ServerConfig {
    type Error = ConfigError;

    fn try_from(inner: Arc<rustls::ServerConfig>) -> Result<Self, ConfigError> {
        check_suites(inner.crypto_provider())?;
        // rustls checks the rest (TLS 1.3 enabled, size of early data) when a connection is created, so one
        // is created here.
        rustls::quic::ServerConnection::new(Arc::clone(&inner), rustls::quic::Version::V1, Vec::new())?;
        Ok(Self { inner, version: Version::V1 })
    }
}

/// Source of a server's certificate.
#[derive(Debug)]
enum Identity {
    Single(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    Resolver(Arc<dyn ResolvesServerCert>),
}

/// Builder of a [`ServerConfig`].
#[derive(Debug)]
pub struct ServerConfigBuilder {
    provider: Option<Arc<CryptoProvider>>,
    identity: Option<Identity>,
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
    alpn: Vec<Vec<u8>>,
    early_data: bool,
    remembered_sessions: usize,
    ticketer: Option<Arc<dyn ProducesTickets>>,
    key_log: Arc<dyn KeyLog>,
    time: Arc<dyn TimeProvider>,
}

impl ServerConfigBuilder {
    fn new() -> Self {
        Self {
            provider: None,
            identity: None,
            client_verifier: None,
            alpn: Vec::new(),
            early_data: false,
            remembered_sessions: DEFAULT_REMEMBERED_SESSIONS,
            ticketer: None,
            key_log: Arc::new(NoKeyLog),
            time: Arc::new(DefaultTimeProvider),
        }
    }

    /// Presents this certificate to every client.
    #[must_use]
    pub fn certificate(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        self.identity = Some(Identity::Single(chain, key));
        self
    }

    /// Lets `resolver` choose a certificate for each client.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn ResolvesServerCert>) -> Self {
        self.identity = Some(Identity::Resolver(resolver));
        self
    }

    /// Requests certificates from clients and verifies them with `verifier`.
    #[must_use]
    pub fn client_verifier(mut self, verifier: Arc<dyn ClientCertVerifier>) -> Self {
        self.client_verifier = Some(verifier);
        self
    }

    /// Sets whether to accept 0-RTT. This requires the session cache, in which a ticket is used only once, so
    /// that replays are rejected.
    #[must_use]
    pub fn early_data(mut self, enabled: bool) -> Self {
        self.early_data = enabled;
        self
    }

    /// Sets the maximum number of sessions that are stored for resumption; 0 disables resumption.
    #[must_use]
    pub fn remembered_sessions(mut self, sessions: usize) -> Self {
        self.remembered_sessions = sessions;
        self
    }

    /// Issues stateless tickets instead of storing sessions. With [`TicketKeys`](super::TicketKeys), servers
    /// with the same keys can resume each other's sessions.
    #[must_use]
    pub fn ticketer(mut self, ticketer: Arc<dyn ProducesTickets>) -> Self {
        self.ticketer = Some(ticketer);
        self
    }

    common_settings!();

    /// Checks the settings and creates the configuration.
    pub fn build(self) -> Result<ServerConfig, ConfigError> {
        // rustls accepts early data with stateful resumption only, and would otherwise silently reject it.
        if self.early_data && self.ticketer.is_some() {
            return Err(ConfigError::EarlyDataWithTicketer);
        }
        let provider = self.provider.unwrap_or_else(default_provider);
        check_suites(&provider)?;
        let builder = rustls::ServerConfig::builder_with_details(provider, self.time)
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match self.client_verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = match self.identity.ok_or(ConfigError::NoCertificate)? {
            Identity::Single(chain, key) => builder.with_single_cert(chain, key)?,
            Identity::Resolver(resolver) => builder.with_cert_resolver(resolver),
        };
        config.alpn_protocols = self.alpn;
        config.max_early_data_size = if self.early_data { QUIC_EARLY_DATA } else { 0 };
        config.key_log = self.key_log;
        config.session_storage = match self.remembered_sessions {
            0 => Arc::new(NoServerSessionStorage {}),
            sessions => ServerSessionMemoryCache::new(sessions),
        };
        if let Some(ticketer) = self.ticketer {
            config.ticketer = ticketer;
            config.send_tls13_tickets = STATELESS_TICKETS;
        } else if self.remembered_sessions == 0 {
            config.send_tls13_tickets = 0;
        }
        ServerConfig::try_from(Arc::new(config))
    }
}
