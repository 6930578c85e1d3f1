//! Settings of a proxy's client.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_transport::ClientConfig;
use http::Uri;
use http::uri::Scheme;

use super::credentials::Credentials;
use super::resolve::Resolve;
use crate::http3;
use crate::paths::{PathPolicy, RacePolicy};

const HTTPS_PORT: u16 = 443;
/// Default time without packets after which a PING frame is sent, so that the connection and its paths stay
/// open while tunnels are idle.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Settings of a proxy's client: the proxy's URL, its addresses, path policy, credentials and timeouts.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) addresses: Vec<SocketAddr>,
    resolver: Option<Arc<dyn Resolve>>,
    pub(super) quic: ClientConfig,
    pub(super) http3: http3::Config,
    pub(super) policy: Option<PathPolicy>,
    pub(super) race: RacePolicy,
    pub(super) credentials: Option<Credentials>,
    pub(super) patience: Duration,
    pub(super) attempt_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) fallback: bool,
    pub(super) tcp_mark: Option<u32>,
}

/// Error for a URL that is no proxy's URL. It does not repeat a URL with credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url} is no proxy: {reason}")]
pub struct InvalidProxy {
    url: String,
    reason: &'static str,
}

impl ProxyConfig {
    /// Creates the settings for the proxy at `url`, which is `https://HOST[:PORT]`; the default port is 443.
    /// `quic` has the trusted certificates and the settings of the transport, the scheduler among them; its
    /// application protocols must include `h3`. If it has no keep-alive for the connection or for its paths,
    /// a PING frame is sent after 10 s without packets.
    ///
    /// # Errors
    /// Fails if the URL has another scheme, no host, or more than a host and a port.
    pub fn new(url: &str, quic: ClientConfig) -> Result<Self, InvalidProxy> {
        let invalid = |reason| InvalidProxy { url: url.to_owned(), reason };
        if url.contains('@') {
            // The URL holds a secret, so it is not repeated.
            let url = "a URL with a name and a password".to_owned();
            return Err(InvalidProxy { url, reason: "they belong into a file" });
        }
        let parsed: Uri = url.parse().map_err(|_| invalid("write https://HOST:PORT"))?;
        if parsed.scheme() != Some(&Scheme::HTTPS) {
            return Err(invalid("write https://HOST:PORT"));
        }
        if parsed.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(invalid("a proxy has no path"));
        }
        let host = parsed.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = parsed.port_u16().unwrap_or(HTTPS_PORT);
        Ok(Self {
            host,
            port,
            addresses: Vec::new(),
            resolver: None,
            quic: keeping_alive(quic),
            http3: http3::Config::default(),
            policy: None,
            race: RacePolicy::default(),
            credentials: None,
            patience: Duration::from_secs(15),
            attempt_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            fallback: true,
            tcp_mark: None,
        })
    }

    /// Returns the proxy's host name or IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the proxy's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the proxy's addresses, so that its host name is not resolved.
    #[must_use]
    pub fn with_addresses(mut self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Sets the resolver that finds the proxy's addresses, instead of the system's. It is not asked if there are addresses
    /// ([`ProxyConfig::with_addresses`]).
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Sets the interfaces from which the connection begins, and on which it opens paths. Without a policy
    /// the system chooses one path.
    #[must_use]
    pub fn with_paths(mut self, policy: PathPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the limits on the attempts that race for a connection.
    #[must_use]
    pub fn with_race(mut self, race: RacePolicy) -> Self {
        self.race = race;
        self
    }

    /// Sets the credentials that each request for a tunnel contains.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the limits and features of HTTP/3.
    #[must_use]
    pub fn with_http3(mut self, http3: http3::Config) -> Self {
        self.http3 = http3;
        self
    }

    /// Sets the maximum time that a tunnel waits for a connection whose stream limit allows it. The default
    /// is 15 s.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum duration of one attempt to connect, which includes the resolution of the proxy's name
    /// and the handshakes from all candidates. The default is 10 s.
    #[must_use]
    pub fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the maximum time until the proxy responds to a request for a tunnel. The default is 60 s, because
    /// the proxy may have to try several addresses of the target.
    #[must_use]
    pub fn with_response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets whether the client connects over TCP, by HTTP/2 on one path, while QUIC cannot reach the proxy. The default is
    /// `true`.
    #[must_use]
    pub fn with_fallback(mut self, fallback: bool) -> Self {
        self.fallback = fallback;
        self
    }

    /// Sets the mark (`SO_MARK`, Linux) of TCP connections to the proxy, by which rules of the kernel tell them from those of other
    /// programs. Connections fail if the process does not have the capability `CAP_NET_ADMIN`. There is no mark by default, and on
    /// other systems.
    #[must_use]
    pub fn with_tcp_mark(mut self, mark: Option<u32>) -> Self {
        self.tcp_mark = mark;
        self
    }

    /// Asks the resolver for the proxy's addresses.
    pub(super) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.resolver {
            Some(resolver) => resolver.resolve(&self.host, self.port).await,
            None => Ok(tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect()),
        }
    }

    /// Returns host and port as an authority (RFC 3986 §3.2).
    pub(super) fn authority(&self) -> String {
        let host = &self.host;
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }
}

/// Returns the configuration with PING frames on idle connections and paths, at [`KEEP_ALIVE`] unless it has
/// another interval.
fn keeping_alive(quic: ClientConfig) -> ClientConfig {
    let mut transport = (**quic.transport()).clone();
    if transport.keep_alive().is_none() {
        transport = transport.with_keep_alive(KEEP_ALIVE);
    }
    if let Some(multipath) = transport.multipath().filter(|paths| paths.path_keep_alive().is_none()) {
        let multipath = multipath.clone().with_path_keep_alive(KEEP_ALIVE);
        transport = transport.with_multipath(Some(multipath));
    }
    quic.with_transport(transport)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SelfSigned, config};

    #[test]
    fn a_secret_in_a_url_is_not_repeated() {
        let roots = SelfSigned::new(["localhost"]).unwrap().roots().unwrap();
        let quic = config::client(roots, ["h3"]).unwrap();
        assert_eq!(ProxyConfig::new("https://[::1]:4433/", quic.clone()).unwrap().authority(), "[::1]:4433");
        for url in [
            "https://alice:tea@proxy.example",
            "http://alice:tea@proxy.example",
            "alice:tea@proxy.example",
            "https://alice:te a@proxy.example",
            "https://alice:tea@proxy.example:99999",
        ] {
            let said = ProxyConfig::new(url, quic.clone()).unwrap_err().to_string();
            assert!(!said.contains("te") && said.contains("belong into a file"), "{said}");
        }
        for url in ["", "proxy.example", "http://proxy.example", "https://", "https://proxy.example/path"] {
            assert!(ProxyConfig::new(url, quic.clone()).is_err(), "{url}");
        }
    }
}
