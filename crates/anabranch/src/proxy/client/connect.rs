//! Attempts to connect to the proxy, from each candidate that the path policy allows.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::config::ProxyConfig;
use super::error::ConnectFailure;
use crate::endpoint::Endpoint;
use crate::http3;
use crate::lock::lock;
use crate::paths::{Candidate, PathManager, unspecified_for};
use crate::sync::Mutex;

/// ALPN protocol name of HTTP/3 (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";

/// Maximum time for which the resolver is waited for if the proxy's addresses are known from before.
const RESOLVER: Duration = Duration::from_secs(2);

/// A connection to the proxy.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) http3: http3::Connection,
    /// Manager of the connection's paths, if there is a path policy.
    pub(super) manager: Option<PathManager>,
}

/// Endpoint and addresses of the proxy, which outlive a client's connections.
#[derive(Debug, Default)]
pub(super) struct Reach {
    endpoint: Mutex<Option<Endpoint>>,
    /// Addresses to which the proxy's name was last resolved. They are used while it cannot be resolved.
    known: Mutex<Vec<SocketAddr>>,
}

impl Reach {
    /// Connects to the proxy. An attempt begins from each candidate in turn until the proxy responds (RFC
    /// 8305), so a path that is dead from the start delays the connection by
    /// [`RacePolicy::delay`](crate::RacePolicy::delay) at most.
    ///
    /// The handshake resumes an earlier session if there is one. It sends no early data: CONNECT is not a
    /// safe method (RFC 8470 §3), and early data on several candidates would be processed several times.
    pub(super) async fn connect(&self, config: &ProxyConfig) -> Result<Live, ConnectFailure> {
        let late = Err(ConnectFailure::TimedOut(config.attempt_timeout));
        timeout(config.attempt_timeout, self.attempt(config)).await.unwrap_or(late)
    }

    async fn attempt(&self, config: &ProxyConfig) -> Result<Live, ConnectFailure> {
        let (remotes, candidates) = self.candidates(config).await?;
        let endpoint = self.endpoint(&remotes)?;
        let quic = endpoint.connect_any(&config.quic, candidates, &config.host, config.race).await?;
        if quic.handshake_data().protocol.as_deref() != Some(ALPN) {
            return Err(ConnectFailure::NotHttp3);
        }
        let manager = config.policy.clone().map(|policy| quic.manage_paths(policy));
        Ok(Live { http3: http3::Connection::new(quic, config.http3.clone()), manager })
    }

    /// Returns the proxy's addresses, and the candidates that the path policy allows.
    pub(super) async fn candidates(
        &self,
        config: &ProxyConfig,
    ) -> Result<(Vec<SocketAddr>, Vec<Candidate>), ConnectFailure> {
        let remotes = self.resolve(config).await?;
        let candidates = match &config.policy {
            Some(policy) => policy.candidates(&remotes).await,
            None => Candidate::to_any_of(&remotes),
        };
        if candidates.is_empty() {
            return Err(ConnectFailure::NoPath);
        }
        Ok((remotes, candidates))
    }

    async fn resolve(&self, config: &ProxyConfig) -> Result<Vec<SocketAddr>, ConnectFailure> {
        if !config.addresses.is_empty() {
            return Ok(config.addresses.clone());
        }
        let asking = config.resolve();
        let is_known = !lock(&self.known).is_empty();
        let found = match is_known {
            // A resolver that does not answer takes longer than the whole attempt may.
            true => timeout(RESOLVER, asking).await.unwrap_or_else(|late| Err(late.into())),
            false => asking.await,
        };
        let mut known = lock(&self.known);
        match found {
            Ok(found) if !found.is_empty() => {
                known.clone_from(&found);
                Ok(found)
            }
            _ if !known.is_empty() => Ok(known.clone()),
            failed => {
                let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
                Err(ConnectFailure::Resolve {
                    host: config.host.clone(),
                    error: failed.err().unwrap_or(missing),
                })
            }
        }
    }

    /// Returns the endpoint of all connections. The first call binds it for the family of the first address
    /// that this host supports.
    fn endpoint(&self, remotes: &[SocketAddr]) -> Result<Endpoint, ConnectFailure> {
        let mut endpoint = lock(&self.endpoint);
        if let Some(endpoint) = &*endpoint {
            return Ok(endpoint.clone());
        }
        let mut bound = remotes.iter().map(|remote| Endpoint::client(unspecified_for(*remote)));
        let first = bound.next().ok_or(ConnectFailure::NoPath)?;
        let made = first.or_else(|error| bound.find_map(Result::ok).ok_or(error));
        Ok(endpoint.insert(made.map_err(ConnectFailure::Socket)?).clone())
    }

    /// Returns the endpoint, if it is bound already.
    pub(super) fn bound(&self) -> Option<Endpoint> {
        lock(&self.endpoint).clone()
    }
}
