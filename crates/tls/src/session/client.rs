//! TLS configuration of a client.

use std::sync::Arc;

use anabranch_wire::Version;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{KeyLog, NoKeyLog, RootCertStore};

use super::settings::common_settings;
use super::tickets::{ClientTickets, VersionTickets};
use super::{ConfigError, check_suites, default_provider};

/// Default maximum number of servers, for each QUIC version and application protocol, whose tickets a client stores.
pub(super) const DEFAULT_REMEMBERED_SERVERS: usize = 32;

/// Configuration that a client's sessions share; cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub(super) inner: Arc<rustls::ClientConfig>,
    /// Ticket store. `None` if resumption is disabled, or if the wrapped rustls configuration has its own
    /// store, which does not distinguish QUIC versions.
    tickets: Option<Arc<ClientTickets>>,
    version: Version,
}

impl ClientConfig {
    /// Returns a builder of a configuration for TLS 1.3 that trusts no server yet.
    pub fn builder() -> ClientConfigBuilder {
        ClientConfigBuilder::new()
    }

    /// Returns the same configuration for connections that begin in `version`; the default is version 1.
    ///
    /// Tickets are stored separately for each version (RFC 9369 §5).
    #[must_use]
    pub fn for_version(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// Returns the same configuration without 0-RTT.
    #[must_use]
    pub fn without_early_data(&self) -> Self {
        let mut inner = rustls::ClientConfig::clone(&self.inner);
        inner.enable_early_data = false;
        Self { inner: Arc::new(inner), ..self.clone() }
    }

    /// Returns a rustls configuration for TLS over TCP, with the same trust in servers, the same certificate and the same key
    /// log, that offers the application protocols `alpn`. It resumes no sessions: those of QUIC do not hold for TCP.
    pub fn over_tcp<T: AsRef<[u8]>>(&self, alpn: impl IntoIterator<Item = T>) -> Arc<rustls::ClientConfig> {
        let mut inner = rustls::ClientConfig::clone(&self.inner);
        inner.alpn_protocols = alpn.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect();
        inner.enable_early_data = false;
        inner.resumption = Resumption::disabled();
        Arc::new(inner)
    }

    /// Returns the ticket store for a new connection.
    pub(super) fn version_tickets(&self) -> Option<Arc<VersionTickets>> {
        let tickets = Arc::clone(self.tickets.as_ref()?);
        Some(VersionTickets::new(tickets, self.version, self.inner.alpn_protocols.clone()))
    }
}

/// Wraps a rustls configuration unchanged, with its own session store.
///
/// That store does not distinguish QUIC versions. Use it with one version only, or build the configuration
/// with [`ClientConfig::builder`].
impl TryFrom<Arc<rustls::ClientConfig>> for ClientConfig {
    type Error = ConfigError;

    fn try_from(inner: Arc<rustls::ClientConfig>) -> Result<Self, ConfigError> {
        check_suites(inner.crypto_provider())?;
        Ok(Self { inner, tickets: None, version: Version::V1 })
    }
}

/// Trust of a client in servers.
#[derive(Debug)]
enum Trust {
    Roots(RootCertStore),
    Verifier(Arc<dyn ServerCertVerifier>),
}

/// Builder of a [`ClientConfig`].
#[derive(Debug)]
pub struct ClientConfigBuilder {
    provider: Option<Arc<CryptoProvider>>,
    trust: Option<Trust>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    alpn: Vec<Vec<u8>>,
    early_data: bool,
    remembered_servers: usize,
    key_log: Arc<dyn KeyLog>,
    time: Arc<dyn TimeProvider>,
}

impl ClientConfigBuilder {
    fn new() -> Self {
        Self {
            provider: None,
            trust: None,
            identity: None,
            alpn: Vec::new(),
            early_data: false,
            remembered_servers: DEFAULT_REMEMBERED_SERVERS,
            key_log: Arc::new(NoKeyLog),
            time: Arc::new(DefaultTimeProvider),
        }
    }

    /// Trusts servers whose certificate chains end at one of `roots`.
    #[must_use]
    pub fn roots(mut self, roots: RootCertStore) -> Self {
        self.trust = Some(Trust::Roots(roots));
        self
    }

    /// Trusts servers whose certificates `verifier` accepts.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        self.trust = Some(Trust::Verifier(verifier));
        self
    }

    /// Presents this certificate to servers that request one.
    #[must_use]
    pub fn certificate(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        self.identity = Some((chain, key));
        self
    }

    /// Sets whether to offer 0-RTT if a ticket permits it.
    #[must_use]
    pub fn early_data(mut self, enabled: bool) -> Self {
        self.early_data = enabled;
        self
    }

    /// Sets the maximum number of servers, for each QUIC version and application protocol, whose tickets are
    /// stored; 0 disables resumption.
    #[must_use]
    pub fn remembered_servers(mut self, servers: usize) -> Self {
        self.remembered_servers = servers;
        self
    }

    common_settings!();

    /// Checks the settings and creates the configuration.
    pub fn build(self) -> Result<ClientConfig, ConfigError> {
        let provider = self.provider.unwrap_or_else(default_provider);
        check_suites(&provider)?;
        let builder = rustls::ClientConfig::builder_with_details(provider, self.time)
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match self.trust.ok_or(ConfigError::NoTrust)? {
            Trust::Roots(roots) => builder.with_root_certificates(roots),
            Trust::Verifier(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        };
        let mut config = match self.identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn;
        config.enable_early_data = self.early_data;
        config.key_log = self.key_log;
        // If there are `tickets`, each connection replaces this by its own store.
        config.resumption = Resumption::disabled();
        let tickets = (self.remembered_servers > 0).then(|| ClientTickets::new(self.remembered_servers));
        Ok(ClientConfig { inner: Arc::new(config), tickets, version: Version::V1 })
    }
}
