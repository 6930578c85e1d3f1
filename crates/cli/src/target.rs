//! What a URL leads to, and the connection there.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{ClientConfig, Connecting, Connection, Endpoint, unspecified_for};
use http::Uri;
use tokio::task::JoinSet;

use crate::exit::{self, Exit, Failure, Result};

/// Port of URLs without one.
const HTTPS_PORT: u16 = 443;
/// Head start of one address over the next (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);

/// A server and a path on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Begins with a slash.
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let bad = |what: &str| {
            Failure::new(Exit::Usage, format!("{url}: {what}")).or("write https://HOST:PORT/PATH")
        };
        let uri: Uri = url.parse().map_err(|_| bad("not a URL"))?;
        if uri.scheme_str() != Some("https") {
            return Err(bad("not an https URL"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("no host"))?;
        let port = uri.port_u16();
        if port.is_none() && uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return Err(bad("neither a host nor a host and a port"));
        }
        // An IPv6 address stands in brackets in a URL, and nowhere else.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { host, port: port.unwrap_or(HTTPS_PORT), path })
    }

    /// The last part of the path, as the name of a file.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let path = self.path.split('?').next()?;
        path.rsplit('/').next().filter(|name| !name.is_empty() && *name != "." && *name != "..")
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let failure = |what: &dyn std::fmt::Display| {
            Failure::new(Exit::Resolution, format!("cannot resolve {}: {what}", self.host))
                .or("check the host name")
        };
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found: Vec<_> = found.map_err(|error| failure(&error))?.collect();
        if found.is_empty() { Err(failure(&"no address")) } else { Ok(found) }
    }
}

/// How a connection was made.
pub(crate) struct Reached {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Connection,
    /// The server took early data; `None` if none was offered.
    pub(crate) early_data: Option<anabranch::ZeroRttAccepted>,
}

/// Connects to the first of the host's addresses that answers, beginning with one after the other (RFC 8305). With early
/// data, only the first address is tried: data that is sent twice would be served twice.
pub(crate) async fn connect(target: &Target, config: &ClientConfig, timeout: Duration) -> Result<Reached> {
    within(target, timeout, first_answer(target, config)).await
}

/// Gives up when `target` takes longer than `timeout`.
pub(crate) async fn within<T>(
    target: &Target,
    timeout: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
        let what =
            format!("{}:{} did not answer within {} s", target.host, target.port, timeout.as_secs_f64());
        Err(Failure::new(Exit::Timeout, what)
            .or("check address, port and firewalls for UDP, or raise --timeout"))
    })
}

async fn first_answer(target: &Target, config: &ClientConfig) -> Result<Reached> {
    let addresses = target.addresses().await?;
    let mut attempts = JoinSet::new();
    for (i, address) in addresses.into_iter().enumerate() {
        let (host, config) = (target.host.clone(), config.clone());
        attempts.spawn(async move {
            tokio::time::sleep(STAGGER * u32::try_from(i).unwrap_or(u32::MAX)).await;
            attempt(&host, address, &config).await
        });
    }
    let mut failure = None;
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(reached)) => return Ok(reached),
            Ok(Err(error)) => _ = failure.get_or_insert(error),
            // An attempt neither panics nor is cancelled while this waits.
            Err(_) => {}
        }
    }
    Err(failure.unwrap_or_else(|| Failure::new(Exit::Io, "no attempt was made")))
}

async fn attempt(host: &str, address: SocketAddr, config: &ClientConfig) -> Result<Reached> {
    let endpoint = client_endpoint(address)?;
    let connecting: Connecting = endpoint.connect_with(config, address, host)?;
    match connecting.into_0rtt() {
        Ok((connection, accepted)) => Ok(Reached { endpoint, connection, early_data: Some(accepted) }),
        Err(connecting) => {
            let connection = connecting.await.map_err(exit::handshake)?;
            Ok(Reached { endpoint, connection, early_data: None })
        }
    }
}

/// An endpoint that reaches `remote`.
pub(crate) fn client_endpoint(remote: SocketAddr) -> Result<Endpoint> {
    Endpoint::client(unspecified_for(remote)).map_err(|error| Failure::io("cannot bind a UDP socket", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let target = |url: &str| Target::parse(url).unwrap();
        let plain = target("https://example.org/a/b.txt");
        assert_eq!((plain.host.as_str(), plain.port, plain.path.as_str()), ("example.org", 443, "/a/b.txt"));
        assert_eq!(plain.file_name(), Some("b.txt"));
        let v6 = target("https://[::1]:4433/x?y=/z");
        assert_eq!((v6.host.as_str(), v6.port, v6.path.as_str()), ("::1", 4433, "/x?y=/z"));
        assert_eq!(v6.file_name(), Some("x"));
        assert_eq!(target("https://example.org").file_name(), None);
        assert_eq!(target("https://example.org/a/..").file_name(), None);
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for bad in ["", "example.org/x", "http://example.org/", "https:///x", "https://example.org:99999/"] {
            assert_eq!(Target::parse(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
    }
}
