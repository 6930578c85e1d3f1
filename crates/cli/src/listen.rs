//! Addresses that servers listen on and that clients of `perf` connect to, written as `HOST:PORT`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use tokio::net::lookup_host;

use crate::exit::{Exit, Failure, Result};

/// Default port of servers and clients.
pub(crate) const PORT: u16 = 4433;

/// A host and a port; either may be omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Name, or address without brackets; `None` for every address of this host.
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
    /// `true` if the text contained a port, so that the port is not the default [`PORT`].
    pub(crate) has_port: bool,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not HOST:PORT; write it as 192.0.2.1:{PORT}, [2001:db8::1]:{PORT}, localhost:{PORT} or :{PORT}"
            )
        };
        let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: Some(address.ip().to_string()), port: address.port(), has_port: true });
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self { host: Some(address.to_string()), port: PORT, has_port: false });
        }
        let (host, port, has_port) = match text.rsplit_once(':') {
            Some((host, text)) => (host, port(text)?, true),
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                ("", port(text)?, true)
            }
            None => (text, PORT, false),
        };
        let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
        match host {
            "" if text.is_empty() => Err(wrong()),
            "" | "*" => Ok(Self { host: None, port, has_port }),
            host if host.chars().all(good) => Ok(Self { host: Some(host.to_owned()), port, has_port }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl HostPort {
    /// Returns the host's addresses, in the order in which the system prefers them. The list is empty if the
    /// host was omitted.
    pub(crate) async fn resolve(&self) -> Result<Vec<SocketAddr>> {
        let Some(host) = &self.host else { return Ok(Vec::new()) };
        let failure = |what: &dyn fmt::Display| {
            Failure::new(Exit::Resolution, format!("cannot resolve {host}: {what}")).or("check the host name")
        };
        let mut addresses = Vec::new();
        for address in lookup_host((host.as_str(), self.port)).await.map_err(|error| failure(&error))? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err(failure(&"no address")) } else { Ok(addresses) }
    }

    /// Returns whether the host is an IP address, not a name.
    pub(crate) fn is_address(&self) -> bool {
        self.host.as_deref().is_some_and(|host| host.parse::<IpAddr>().is_ok())
    }
}

/// Removes a trailing directory from a list of listen addresses. An option with several values, as in
/// `--listen :4433 DIR`, takes the directory for an address.
pub(crate) fn take_directory(places: &mut Vec<String>) -> Option<String> {
    let last = places.last().filter(|last| places.len() > 1 && !last.contains(':'))?;
    let named = last.parse::<IpAddr>().is_err() && last.parse::<u16>().is_err();
    if named && Path::new(last).is_dir() { places.pop() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_can_be_left_out() {
        let place = |host: Option<&str>, port| (host.map(str::to_owned), port);
        for (text, expected) in [
            ("127.0.0.1:80", place(Some("127.0.0.1"), 80)),
            ("[::1]:80", place(Some("::1"), 80)),
            ("::1", place(Some("::1"), PORT)),
            ("[::1]", place(Some("::1"), PORT)),
            ("192.0.2.1", place(Some("192.0.2.1"), PORT)),
            (":4433", place(None, 4433)),
            ("*:4433", place(None, 4433)),
            ("8443", place(None, 8443)),
            ("localhost:4433", place(Some("localhost"), 4433)),
            ("example.org", place(Some("example.org"), PORT)),
        ] {
            let parsed = text.parse::<HostPort>().unwrap();
            assert_eq!((parsed.host, parsed.port), expected, "{text}");
            assert_eq!(
                parsed.has_port,
                !matches!(text, "::1" | "[::1]" | "192.0.2.1" | "example.org"),
                "{text}"
            );
        }
        for bad in ["", ":", "x:", "x:y", ":99999", "a b:1", "99999", "https://x:1", "1:2:3"] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
        for text in ["127.0.0.1:80", "[::1]:80", ":4433", "localhost:1"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_directory_at_the_end_is_no_place_to_listen_on() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().to_str().unwrap().to_owned();
        let mut places = vec![":1".to_owned(), name.clone()];
        assert_eq!(take_directory(&mut places), Some(name.clone()));
        assert_eq!(places, [":1"]);
        assert_eq!(take_directory(&mut vec![name]), None, "somewhere it has to listen");
        assert_eq!(take_directory(&mut vec![":1".to_owned(), "localhost".to_owned()]), None);
    }
}
