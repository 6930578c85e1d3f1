//! Requests for tunnels, and the targets that they name.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::refusal::{Cause, Refusal};
use crate::proxy::client::Target;

/// Path of the default template for UDP (RFC 9298 §2), up to the host.
const UDP_PREFIX: &str = "/.well-known/masque/udp/";
/// Protocol of an extended CONNECT request for a UDP flow (RFC 9298 §3.4).
const CONNECT_UDP: &str = "connect-udp";

/// Kind of traffic that a tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carried {
    /// The bytes of a TCP connection.
    Tcp,
    /// The datagrams of a UDP flow.
    Udp,
}

impl Carried {
    /// Returns the name in lower case, for logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Returns what a request asks the proxy to carry; `None` if the request is for something else. `protocol` is the
/// protocol of an extended CONNECT (RFC 8441, RFC 9220), or of an upgrade in HTTP/1.1.
pub(super) fn carried(parts: &Parts, protocol: Option<&str>) -> Option<Carried> {
    match protocol {
        None if parts.method == Method::CONNECT => Some(Carried::Tcp),
        Some(CONNECT_UDP) if parts.uri.path().starts_with(UDP_PREFIX) => Some(Carried::Udp),
        _ => None,
    }
}

/// Returns the target of a request.
///
/// # Errors
/// Fails if the request names no target.
pub(super) fn target(parts: &Parts, carried: Carried) -> Result<Target, Refusal> {
    match carried {
        Carried::Tcp => tcp(parts),
        Carried::Udp => udp(parts),
    }
}

fn tcp(parts: &Parts) -> Result<Target, Refusal> {
    // RFC 9110 §9.3.6: only the authority form, and an invalid or empty port is an error of the client.
    let authority =
        parts.uri.authority().ok_or_else(|| invalid("a CONNECT request names HOST:PORT"))?.as_str();
    let (_, port) = authority.rsplit_once(':').ok_or_else(|| invalid("a CONNECT request names a port"))?;
    digits(port)?;
    authority.parse().map_err(|_| invalid("a CONNECT request names HOST:PORT"))
}

fn udp(parts: &Parts) -> Result<Target, Refusal> {
    let rest = parts.uri.path().strip_prefix(UDP_PREFIX).unwrap_or_default();
    let segments: Vec<_> = rest.splitn(4, '/').collect();
    // RFC 9298 §3: both variables are there, and the template ends in a slash.
    let &[host, port, ""] = &segments[..] else {
        return Err(invalid("a path for UDP is /.well-known/masque/udp/HOST/PORT/"));
    };
    let decoded =
        |text| percent_decode_str(text).decode_utf8().map_err(|_| invalid("a path has UTF-8 characters"));
    let (host, port) = (decoded(host)?, decoded(port)?);
    let port = digits(&port)?;
    Target::new(&host, port).map_err(|_| invalid("a path names a host and a port from 1 to 65535"))
}

/// Parses a port, which consists of digits only.
fn digits(port: &str) -> Result<u16, Refusal> {
    let number = port.bytes().all(|digit| digit.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    number.filter(|port| *port > 0).ok_or_else(|| invalid("a port is a number from 1 to 65535"))
}

fn invalid(details: &'static str) -> Refusal {
    Refusal::new(Cause::Malformed, details)
}

#[cfg(test)]
mod tests;
