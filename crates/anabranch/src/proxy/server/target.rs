//! Requests for tunnels, and the targets that they name.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::refusal::{Cause, Refusal};
use crate::proxy::client::Target;
use crate::proxy::has_content_fields;
use crate::proxy::ip;

/// Path of the default template for UDP (RFC 9298 §2), in front of the host.
const UDP_PREFIX: &str = "/.well-known/masque/udp/";
/// Protocol of an extended CONNECT request for a UDP flow (RFC 9298 §3.4).
const CONNECT_UDP: &str = "connect-udp";
/// Protocol of an extended CONNECT request for IP packets (RFC 9484 §4.4).
const CONNECT_IP: &str = "connect-ip";

/// Kind of traffic that a tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Carried {
    /// The bytes of a TCP connection.
    Tcp,
    /// The datagrams of a UDP flow.
    Udp,
    /// IP packets.
    Ip,
}

impl Carried {
    /// Returns the name in lower case, for logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Ip => "ip",
        }
    }
}

/// Returns the kind of tunnel that a request asks for; `None` if the request is not for a tunnel. `protocol` is the protocol
/// of an extended CONNECT (RFC 8441, RFC 9220), or of an upgrade in HTTP/1.1.
pub(in crate::proxy) fn carried(parts: &Parts, protocol: Option<&str>) -> Option<Carried> {
    match protocol {
        None if parts.method == Method::CONNECT => Some(Carried::Tcp),
        Some(CONNECT_UDP) if parts.uri.path().starts_with(UDP_PREFIX) => Some(Carried::Udp),
        Some(CONNECT_IP) if parts.uri.path().starts_with(ip::PREFIX) => Some(Carried::Ip),
        _ => None,
    }
}

/// Returns the target of a request; `None` for IP packets, each of which has its own destination.
///
/// # Errors
/// Fails if the request names no valid target, or a scope of IP packets that is not supported, or if it has capsules and is
/// malformed.
pub(in crate::proxy) fn target(parts: &Parts, carried: Carried) -> Result<Option<Target>, Refusal> {
    if carried != Carried::Tcp && has_content_fields(&parts.headers) {
        return Err(invalid("a request with capsules has no fields about content"));
    }
    match carried {
        Carried::Tcp => tcp(parts).map(Some),
        Carried::Udp => udp(parts).map(Some),
        Carried::Ip => everything(parts).map(|()| None),
    }
}

/// Checks that the scope of a request for IP packets is all targets and all protocols. Others are refused (RFC 9484 §4.6).
fn everything(parts: &Parts) -> Result<(), Refusal> {
    let rest = parts.uri.path().strip_prefix(ip::PREFIX).unwrap_or_default();
    let decoded: Vec<_> =
        rest.split('/').map(|segment| percent_decode_str(segment).decode_utf8_lossy()).collect();
    if decoded == ["*", "*", ""] {
        return Ok(());
    }
    Err(Refusal::new(Cause::Unsupported, "the path for IP packets is /.well-known/masque/ip/*/*/"))
}

fn tcp(parts: &Parts) -> Result<Target, Refusal> {
    // RFC 9110 §9.3.6: a request has the authority form, and one with an empty or invalid port is rejected.
    let authority =
        parts.uri.authority().ok_or_else(|| invalid("a CONNECT request names HOST:PORT"))?.as_str();
    let (_, port) = authority.rsplit_once(':').ok_or_else(|| invalid("a CONNECT request names a port"))?;
    digits(port)?;
    authority.parse().map_err(|_| invalid("a CONNECT request names HOST:PORT"))
}

fn udp(parts: &Parts) -> Result<Target, Refusal> {
    let rest = parts.uri.path().strip_prefix(UDP_PREFIX).unwrap_or_default();
    let segments: Vec<_> = rest.splitn(4, '/').collect();
    // RFC 9298 §3: both variables have values, and the path of the default template ends in a slash.
    let &[host, port, ""] = &segments[..] else {
        return Err(invalid("a path for UDP is /.well-known/masque/udp/HOST/PORT/"));
    };
    let decoded =
        |text| percent_decode_str(text).decode_utf8().map_err(|_| invalid("a path has UTF-8 characters"));
    let (host, port) = (decoded(host)?, decoded(port)?);
    let port = digits(&port)?;
    Target::new(&host, port).map_err(|_| invalid("a path names a host and a port from 1 to 65535"))
}

/// Parses a port from 1 to 65535, which consists of digits only.
fn digits(port: &str) -> Result<u16, Refusal> {
    let number = port.bytes().all(|digit| digit.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    number.filter(|port| *port > 0).ok_or_else(|| invalid("a port is a number from 1 to 65535"))
}

fn invalid(details: &'static str) -> Refusal {
    Refusal::new(Cause::Malformed, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the target of a request as text, or the cause of the refusal; `None` if the request is not for a tunnel.
    fn asked(method: Method, uri: &str, protocol: Option<&str>) -> Option<Result<String, Cause>> {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let parts = request.into_parts().0;
        let carried = carried(&parts, protocol)?;
        let shown =
            |target: Option<Target>| target.map_or_else(|| "*".to_owned(), |target| target.to_string());
        Some(target(&parts, carried).map(shown).map_err(|refusal| refusal.cause()))
    }

    #[test]
    fn targets_have_a_host_and_a_port() {
        let tcp = |uri| asked(Method::CONNECT, uri, None).unwrap();
        assert_eq!(tcp("Example.org:443"), Ok("example.org:443".to_owned()));
        assert_eq!(tcp("[::1]:80"), Ok("[::1]:80".to_owned()));
        for bad in ["example.org", "example.org:", "example.org:0", "https://example.org/"] {
            assert_eq!(tcp(bad), Err(Cause::Malformed), "{bad}");
        }
        let udp = |path: &str| {
            asked(Method::CONNECT, &format!("https://p{UDP_PREFIX}{path}"), Some(CONNECT_UDP)).unwrap()
        };
        assert_eq!(udp("dns.example/53/"), Ok("dns.example:53".to_owned()));
        assert_eq!(udp("2001%3Adb8%3A%3A42/443/"), Ok("[2001:db8::42]:443".to_owned()));
        for bad in ["", "a/", "a/53", "a/53/b", "a/53/b/", "a/+53/", "a/0/", "/53/", "%ff/53/"] {
            assert_eq!(udp(bad), Err(Cause::Malformed), "{bad}");
        }
    }

    #[test]
    fn ip_packets_have_all_targets() {
        let ip = |path: &str| {
            asked(Method::CONNECT, &format!("https://p{}{path}", ip::PREFIX), Some(CONNECT_IP)).unwrap()
        };
        assert_eq!((ip("*/*/"), ip("%2A/%2a/")), (Ok("*".to_owned()), Ok("*".to_owned())));
        for other in ["", "*/*", "*/17/", "192.0.2.0%2f24/*/", "*/*//"] {
            assert_eq!(ip(other), Err(Cause::Unsupported), "{other}");
        }
    }

    #[test]
    fn other_requests_are_for_others() {
        assert_eq!(asked(Method::GET, "https://p/", None), None);
        assert_eq!(asked(Method::CONNECT, "https://p/chat", Some("websocket")), None);
        assert_eq!(asked(Method::CONNECT, "https://p/elsewhere", Some(CONNECT_IP)), None);
        assert_eq!(asked(Method::CONNECT, "https://p/elsewhere", Some(CONNECT_UDP)), None);
    }
}
