//! Target of a tunnel: the host and port that the client requests.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Maximum length of a host name as text, in bytes: 255 octets of its encoding (RFC 1035 §2.3.4) without the
/// first length octet and the root label.
const MAX_NAME: usize = 253;

/// Host and port at the other end of a tunnel. The proxy resolves names; the client does not.
///
/// ```
/// use anabranch::proxy::client::Target;
///
/// let target: Target = "db.internal:5432".parse()?;
/// assert_eq!((target.host(), target.port()), ("db.internal".to_owned(), 5432));
/// assert_eq!("[2001:db8::1]:53".parse::<Target>()?.to_string(), "[2001:db8::1]:53");
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Host {
    Name(String),
    Address(IpAddr),
}

/// Error for a host or a text that is no valid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no target: {reason}")]
pub struct InvalidTarget {
    text: String,
    reason: &'static str,
}

impl Target {
    /// Creates the target of a host, which is a name or an IP address without brackets, and a port.
    ///
    /// # Errors
    /// Fails if the host is neither, or if the port is 0.
    pub fn new(host: &str, port: u16) -> Result<Self, InvalidTarget> {
        let invalid = |reason| InvalidTarget { text: host.to_owned(), reason };
        if port == 0 {
            return Err(invalid("its port is 0"));
        }
        if let Ok(address) = host.parse() {
            return Ok(Self { host: Host::Address(address), port });
        }
        let valid = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        if host.is_empty() || host.len() > MAX_NAME {
            return Err(invalid("a name has 1 to 253 characters"));
        }
        if !host.bytes().all(valid) {
            return Err(invalid("a name has ASCII letters, digits, '-', '_' and '.'"));
        }
        Ok(Self { host: Host::Name(host.to_ascii_lowercase()), port })
    }

    /// Returns the name or IP address, without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path that requests a UDP flow to the target (RFC 9298 §2, the default template). Colons of
    /// IPv6 addresses are percent-encoded (§3.1).
    pub(in crate::proxy) fn udp_path(&self) -> String {
        format!("/.well-known/masque/udp/{}/{}/", self.host().replace(':', "%3A"), self.port)
    }
}

/// Converts the address of a packet or a request as it is. Proxies refuse targets with the port 0.
impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip()), port: address.port() }
    }
}

/// Parses `HOST:PORT`, with brackets around an IPv6 address.
impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let invalid = |reason| InvalidTarget { text: text.to_owned(), reason };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| invalid("write HOST:PORT"))?;
        let port = port.parse().map_err(|_| invalid("its port is no number from 1 to 65535"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(invalid("write an IPv6 address in brackets"));
        }
        if bare.is_some_and(|bare| bare.parse::<std::net::Ipv6Addr>().is_err()) {
            return Err(invalid("only IPv6 addresses have brackets"));
        }
        Self::new(bare.unwrap_or(host), port).map_err(|error| invalid(error.reason))
    }
}

/// Writes the authority form of a request for a tunnel (RFC 9110 §7.1).
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_a_port() {
        for (text, host, shown) in [
            ("Example.ORG:443", "example.org", "example.org:443"),
            ("192.0.2.1:1", "192.0.2.1", "192.0.2.1:1"),
            ("[::1]:65535", "::1", "[::1]:65535"),
            ("_srv._udp.example:53", "_srv._udp.example", "_srv._udp.example:53"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host().as_str(), target.to_string().as_str()), (host, shown));
        }
        let long = format!("{}:1", "a".repeat(MAX_NAME + 1));
        for bad in [
            "",
            "host",
            ":1",
            "host:",
            "host:0",
            "host:65536",
            "::1:80",
            "[host]:1",
            "a b:1",
            "bücher:1",
            "a/b:1",
            &long,
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_of_flows_encode_colons() {
        let path = |text: &str| text.parse::<Target>().unwrap().udp_path();
        assert_eq!(path("dns.example:53"), "/.well-known/masque/udp/dns.example/53/");
        assert_eq!(path("[2001:db8::42]:443"), "/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/");
    }
}
