//! TLS configurations of simulations: seeded randomness, virtual time and one certificate.

use std::sync::Arc;

use anabranch_seeded::{Identity, VirtualClock, deterministic_provider};
use anabranch_tls::{ClientConfig, ConfigError, ServerConfig};

/// Name in the certificate of every simulated server.
pub const SERVER_NAME: &str = "server.lab";
/// Application protocol of every simulated connection.
pub const ALPN: &str = "lab";

/// Creates a client and a server configuration that trust each other and allow resumption and early data. The
/// thread must have been seeded before, which [`crate::sim::Simulation::new`] does.
///
/// # Errors
/// Fails if TLS refuses the configuration, which would be a fault of this crate.
pub(crate) fn pair(clock: &Arc<VirtualClock>) -> Result<(ClientConfig, ServerConfig), ConfigError> {
    let identity = Identity::new(1, &[SERVER_NAME]).map_err(|error| ConfigError::Tls(error.to_string()))?;
    let client = ClientConfig::builder()
        .provider(deterministic_provider())
        .time(Arc::clone(clock) as _)
        .roots(identity.roots()?)
        .alpn([ALPN])
        .early_data(true)
        .build()?;
    let server = ServerConfig::builder()
        .provider(deterministic_provider())
        .time(Arc::clone(clock) as _)
        .certificate(vec![identity.certificate], identity.key)
        .alpn([ALPN])
        .early_data(true)
        .build()?;
    Ok((client, server))
}
