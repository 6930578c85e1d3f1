//! Target of a URL, and the connection to it.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::{
    AddressToken, ClientConfig, Connection, Endpoint, RacePolicy, ZeroRttAccepted, unspecified_for,
};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::exit::{self, Exit, Failure, Passing, Result};
use crate::multipath::ClientPaths;

/// Port of URLs without one.
const HTTPS_PORT: u16 = 443;
/// Name of the file that a directory's URL stands for, as in other clients and servers.
const INDEX: &str = "index.html";
/// Maximum time to wait until the last packets are sent.
const FAREWELL: Duration = Duration::from_millis(200);

/// A server and a path on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query; begins with a slash.
    pub(crate) path: String,
    url: Url,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let parsed = Url::parse(url).map_err(|error| bad(url, &error))?;
        Self::from_url(parsed).map_err(|what| bad(url, &what))
    }

    /// Returns the target of a redirection.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self> {
        let joined = self.url.join(location).map_err(|error| error.to_string());
        joined.and_then(|url| Self::from_url(url).map_err(str::to_owned)).map_err(|what| {
            Failure::new(
                Exit::Http,
                format!("{} leads to {location}, which cannot be followed: {what}", self),
            )
        })
    }

    fn from_url(url: Url) -> std::result::Result<Self, &'static str> {
        if url.scheme() != "https" {
            return Err("not an https URL");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("names and passwords do not belong into URLs");
        }
        let host = match url.host().ok_or("no host")? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", url.path());
        Ok(Self { host, port: url.port().unwrap_or(HTTPS_PORT), path, url })
    }

    /// Returns host and port as in the URL.
    pub(crate) fn authority(&self) -> &str {
        self.url.authority()
    }

    /// Returns the last part of the path as a file name, or that of an index if the path is a directory.
    /// Percent-encoding is removed unless the result could not be a file name, or would hide some of its
    /// characters.
    pub(crate) fn file_name(&self) -> Cow<'_, str> {
        let last = self.url.path_segments().and_then(|mut segments| segments.next_back());
        let encoded = last.filter(|name| !name.is_empty()).unwrap_or(INDEX);
        match percent_decode_str(encoded).decode_utf8() {
            Ok(name) if is_plain(&name) => name,
            _ => encoded.into(),
        }
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let failure = |what: &dyn fmt::Display| {
            Failure::new(Exit::Resolution, format!("cannot resolve {}: {what}", self.host))
                .or("check the host name")
                .passing(Passing::Unanswered)
        };
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found: Vec<_> = found.map_err(|error| failure(&error))?.collect();
        if found.is_empty() { Err(failure(&"no address")) } else { Ok(found) }
    }
}

/// Returns whether the name is valid for a file and all its characters are visible.
fn is_plain(name: &str) -> bool {
    let hides = |c: char| {
        c == '/'
            || c.is_control()
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    !name.starts_with('.') && !name.chars().any(hides)
}

fn bad(url: &str, what: &dyn fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{url}: {what}")).or("write https://HOST:PORT/PATH")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Endpoint of all connections, created when it is first needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyEndpoint(Arc<Mutex<Made>>);

#[derive(Debug, Default)]
struct Made {
    endpoint: Option<Endpoint>,
    /// Tokens for the endpoint when it is created.
    tokens: Vec<AddressToken>,
}

impl LazyEndpoint {
    /// Creates an endpoint that sends these address validation tokens to servers.
    pub(crate) fn with_tokens(tokens: Vec<AddressToken>) -> Self {
        Self(Arc::new(Mutex::new(Made { endpoint: None, tokens })))
    }

    /// Returns the unused tokens, including those that servers have sent.
    pub(crate) fn tokens(&self) -> Vec<AddressToken> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without an endpoint, no token has been used.
        made.endpoint.as_ref().map_or_else(|| made.tokens.clone(), Endpoint::address_tokens)
    }

    /// Returns an endpoint bound for the first of these addresses whose family this host supports. The endpoint
    /// binds sockets for other families when they are needed.
    fn reaching(&self, remotes: &[SocketAddr]) -> Result<Endpoint> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = &made.endpoint {
            return Ok(endpoint.clone());
        }
        let mut bound = remotes.iter().map(|remote| client_endpoint(*remote));
        let first = bound.next().unwrap_or_else(|| Err(Failure::new(Exit::Resolution, "no address")));
        let endpoint = first.or_else(|failure| bound.find_map(Result::ok).ok_or(failure))?;
        made.tokens.iter().for_each(|token| endpoint.add_address_token(token.clone()));
        made.endpoint = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Waits up to [`FAREWELL`] until a CONNECTION_CLOSE is sent on each connection. The closing period is
    /// not awaited (RFC 9000 §10.2).
    pub(crate) async fn farewell(&self) {
        let endpoint = self.0.lock().unwrap_or_else(PoisonError::into_inner).endpoint.clone();
        if let Some(endpoint) = endpoint {
            // A server that does not receive the CONNECTION_CLOSE detects the end by its idle timeout.
            let _ = tokio::time::timeout(FAREWELL, endpoint.wait_close_sent()).await;
        }
    }
}

/// A connection to a server, and the server's pending decision on early data.
pub(crate) struct Reached {
    pub(crate) connection: Connection,
    /// Future of the server's decision on early data; `None` if the client could not offer any.
    pub(crate) early_data: Option<ZeroRttAccepted>,
}

/// Connects to a server. The host's addresses are tried in turn (RFC 8305), from each of the interfaces in
/// turn, until the server responds. With early data only the first attempt is made, because data that is sent
/// twice might be served twice.
pub(crate) async fn connect(
    target: &Target,
    endpoint: &LazyEndpoint,
    config: &ClientConfig,
    paths: &ClientPaths,
    timeout: Duration,
) -> Result<Reached> {
    let addresses = within(target, timeout, None, target.addresses()).await?;
    let candidates = paths.candidates(&addresses, timeout).await?;
    let reached = async {
        let endpoint = endpoint.reaching(&addresses)?;
        match endpoint.connect_any(config, candidates, &target.host, RacePolicy::default()).into_0rtt() {
            Ok((connection, accepted)) => Ok(Reached { connection, early_data: Some(accepted) }),
            Err(racing) => {
                let connection = racing.await.map_err(exit::attempt)?;
                Ok(Reached { connection, early_data: None })
            }
        }
    };
    within(target, timeout, None, reached).await
}

/// Fails if `answer` takes longer than `timeout`. If there is a connection, the error states until when the
/// server responded on it.
pub(crate) async fn within<T>(
    target: &Target,
    timeout: Duration,
    connection: Option<&Connection>,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
        let mut what = format!("{} did not answer within {} s", target.authority(), timeout.as_secs_f64());
        let mut remedy = "check address, port and firewalls for UDP, or raise --timeout";
        if let Some(silence) = connection.map(Connection::silence) {
            what = format!("{what}; {silence}");
            remedy = silence.heard.map_or(remedy, |_| "raise --timeout, or look at what the server does");
        }
        Err(Failure::new(Exit::Timeout, what).or(remedy).passing(Passing::Unanswered))
    })
}

/// Creates an endpoint with a socket for the address family of `remote`.
pub(crate) fn client_endpoint(remote: SocketAddr) -> Result<Endpoint> {
    Endpoint::client(unspecified_for(remote))
        .map_err(|error| Failure::io("cannot bind a UDP socket", &error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_those_that_people_read() {
        let name = |last: &str| {
            Target::parse(&format!("https://example.org/a/{last}")).unwrap().file_name().into_owned()
        };
        assert_eq!(name("mein schöner Fluß.bin"), "mein schöner Fluß.bin");
        assert_eq!(name("100%25.txt"), "100%.txt");
        for odd in ["..%2f..%2fetc", "%2e%2e%2fx", "a%00b", "a%0ab", "%ff", "%2eprofile", "a%e2%80%aeb"] {
            assert_eq!(name(odd), odd);
        }
    }

    #[test]
    fn urls() {
        let target = |url: &str| Target::parse(url).unwrap();
        let plain = target("https://example.org/a/b.txt");
        assert_eq!((plain.host.as_str(), plain.port, plain.path.as_str()), ("example.org", 443, "/a/b.txt"));
        assert_eq!((plain.authority(), &*plain.file_name()), ("example.org", "b.txt"));
        let v6 = target("https://[::1]:4433/x?y=/z#part");
        assert_eq!((v6.host.as_str(), v6.port, v6.path.as_str()), ("::1", 4433, "/x?y=/z"));
        assert_eq!((v6.authority(), &*v6.file_name()), ("[::1]:4433", "x"));
        for directory in ["", "/", "/a/", "/a/..", "/a/%2e%2E", "/?query", "/a/#part"] {
            assert_eq!(target(&format!("https://example.org{directory}")).file_name(), "index.html");
        }
        assert_eq!(target("https://bücher.example/a b").to_string(), "https://xn--bcher-kva.example/a%20b");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        let bad = [
            "",
            "example.org/x",
            "http://example.org/",
            "https://",
            "https://example.org:99999/",
            "https://a@b/",
        ];
        for bad in bad {
            assert_eq!(Target::parse(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn redirections_are_relative_and_keep_the_scheme() {
        let from = Target::parse("https://example.org/a/b?c").unwrap();
        for (location, to) in [
            ("d", "https://example.org/a/d"),
            ("../e", "https://example.org/e"),
            ("//other.example/f", "https://other.example/f"),
            ("https://example.org:8443/g", "https://example.org:8443/g"),
        ] {
            assert_eq!(from.redirected(location).unwrap().to_string(), to);
        }
        for bad in ["http://example.org/", "ftp://example.org/", "https://u:p@example.org/", "https://"] {
            assert_eq!(from.redirected(bad).unwrap_err().exit(), Exit::Http, "{bad}");
        }
    }
}
