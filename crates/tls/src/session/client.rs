//! A client's TLS configuration.

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

/// Servers whose tickets a client remembers, by default and per QUIC version.
pub(super) const DEFAULT_REMEMBERED_SERVERS: usize = 256;

/// Configuration that a client's sessions share; cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub(super) inner: Arc<rustls::ClientConfig>,
    /// `None`: the wrapped rustls configuration brings its own store, which knows no QUIC versions.
    tickets: Option<Arc<ClientTickets>>,
    version: Version,
}

impl ClientConfig {
    /// Starts a configuration: TLS 1.3, no trust yet.
    pub fn builder() -> ClientConfigBuilder {
        ClientConfigBuilder::new()
    }

    /// Returns the same configuration for a connection that begins in `version`; v1 unless said otherwise.
    ///
    /// Tickets are kept apart by version (RFC 9369 §5).
    #[must_use]
    pub fn for_version(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// Returns the same configuration, never offering 0-RTT.
    #[must_use]
    pub fn without_early_data(&self) -> Self {
        let mut inner = rustls::ClientConfig::clone(&self.inner);
        inner.enable_early_data = false;
        Self { inner: Arc::new(inner), ..self.clone() }
    }

    /// Returns the view of the tickets that a new connection gets.
    pub(super) fn version_tickets(&self) -> Option<Arc<VersionTickets>> {
        let tickets = Arc::clone(self.tickets.as_ref()?);
        Some(VersionTickets::new(tickets, self.version))
    }
}

/// Wraps a rustls configuration as it is, with its own session store.
///
/// Such a store is not told QUIC versions apart: use it with one version, or build with
/// [`ClientConfig::builder`].
impl TryFrom<Arc<rustls::ClientConfig>> for ClientConfig {
    type Error = ConfigError;

    fn try_from(inner: Arc<rustls::ClientConfig>) -> Result<Self, ConfigError> {
        check_suites(inner.crypto_provider())?;
        Ok(Self { inner, tickets: None, version: Version::V1 })
    }
}

/// Trust of a client.
#[derive(Debug)]
enum Trust {
    Roots(RootCertStore),
    Verifier(Arc<dyn ServerCertVerifier>),
}

/// Collects a [`ClientConfig`].
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

    /// Trusts whom `verifier` trusts.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        self.trust = Some(Trust::Verifier(verifier));
        self
    }

    /// Presents this certificate to servers that ask for one.
    #[must_use]
    pub fn certificate(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        self.identity = Some((chain, key));
        self
    }

    /// Returns whether to offer 0-RTT when a ticket allows it.
    #[must_use]
    pub fn early_data(mut self, enabled: bool) -> Self {
        self.early_data = enabled;
        self
    }

    /// Sets the number of servers whose tickets are remembered (per QUIC version); 0 turns resumption off.
    #[must_use]
    pub fn remembered_servers(mut self, servers: usize) -> Self {
        self.remembered_servers = servers;
        self
    }

    common_settings!();

    /// Checks and finishes.
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
        // Replaced per connection by a view of `tickets`, if there are any.
        config.resumption = Resumption::disabled();
        let tickets = (self.remembered_servers > 0).then(|| ClientTickets::new(self.remembered_servers));
        Ok(ClientConfig { inner: Arc::new(config), tickets, version: Version::V1 })
    }
}
