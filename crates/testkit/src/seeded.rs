//! TLS of a client and a server that trust each other, whose choices follow from the seed of their thread.

use std::sync::Arc;

use anabranch_seeded::{Identity, VirtualClock, deterministic_provider};
use anabranch_tls::{ClientConfig, ClientConfigBuilder, ServerConfig, ServerConfigBuilder};

pub use anabranch_seeded::seed_thread;

/// A server's certificate and the clock that both ends read.
#[derive(Debug)]
pub struct Trust {
    /// The certificate and its key, always the same for a name.
    pub identity: Identity,
    /// The clock.
    pub clock: Arc<VirtualClock>,
}

impl Trust {
    /// Creates the certificate of a server with this name.
    pub fn new(name: &str) -> Self {
        Self { identity: Identity::new(1, &[name]).unwrap(), clock: VirtualClock::new() }
    }

    /// Begins the configuration of a client that trusts the certificate.
    pub fn client(&self, alpn: &str) -> ClientConfigBuilder {
        ClientConfig::builder()
            .provider(deterministic_provider())
            .time(Arc::clone(&self.clock) as _)
            .roots(self.identity.roots().unwrap())
            .alpn([alpn])
    }

    /// Begins the configuration of a server that shows the certificate.
    pub fn server(&self, alpn: &str) -> ServerConfigBuilder {
        ServerConfig::builder()
            .provider(deterministic_provider())
            .time(Arc::clone(&self.clock) as _)
            .certificate(vec![self.identity.certificate.clone()], self.identity.key.clone_key())
            .alpn([alpn])
    }

    /// Returns configurations of both ends, without early data.
    pub fn pair(&self, alpn: &str) -> (ClientConfig, ServerConfig) {
        (self.client(alpn).build().unwrap(), self.server(alpn).build().unwrap())
    }
}
