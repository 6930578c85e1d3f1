//! TLS configurations of a server, and of a client that trusts it. Their random choices are derived from the
//! seed of their thread.

use std::sync::Arc;

use anabranch_seeded::{Identity, VirtualClock, deterministic_provider};
use anabranch_tls::{ClientConfig, ClientConfigBuilder, ServerConfig, ServerConfigBuilder};

pub use anabranch_seeded::seed_thread;

/// A server's certificate, and the clock that both endpoints use.
#[derive(Debug)]
pub struct Trust {
    /// Certificate and private key, always the same for the same name.
    pub identity: Identity,
    /// The clock.
    pub clock: Arc<VirtualClock>,
}

impl Trust {
    /// Creates the certificate of a server with the name `name`.
    pub fn new(name: &str) -> Self {
        Self { identity: Identity::new(1, &[name]).unwrap(), clock: VirtualClock::new() }
    }

    /// Returns the builder of a client's configuration that trusts the certificate.
    pub fn client(&self, alpn: &str) -> ClientConfigBuilder {
        ClientConfig::builder()
            .provider(deterministic_provider())
            .time(Arc::clone(&self.clock) as _)
            .roots(self.identity.roots().unwrap())
            .alpn([alpn])
    }

    /// Returns the builder of a server's configuration that presents the certificate.
    pub fn server(&self, alpn: &str) -> ServerConfigBuilder {
        ServerConfig::builder()
            .provider(deterministic_provider())
            .time(Arc::clone(&self.clock) as _)
            .certificate(vec![self.identity.certificate.clone()], self.identity.key.clone_key())
            .alpn([alpn])
    }

    /// Returns the configurations of both endpoints, without early data.
    pub fn pair(&self, alpn: &str) -> (ClientConfig, ServerConfig) {
        (self.client(alpn).build().unwrap(), self.server(alpn).build().unwrap())
    }
}
