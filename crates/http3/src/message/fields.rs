//! Conversion of HTTP messages to field lines, pseudo-headers first.

use std::borrow::Cow;

use http::header::{AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION, SET_COOKIE, TE};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, request, response};
use smallvec::SmallVec;

use super::{InvalidMessage, NeverIndexed, Protocol, has_port, is_connection_specific};
use crate::qpack::Field;

/// Length below which a cookie is never indexed, in bytes. An attacker who observes the compressed length
/// could guess a short cookie (RFC 9204 §7.1.3).
pub(super) const GUESSABLE_COOKIE: usize = 20;

/// Bytes that each field line adds to the section's size besides its name and value (RFC 9114 §4.2.2).
const FIELD_OVERHEAD: u64 = 32;

/// Field lines of an outgoing message.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    pseudo: SmallVec<[(&'static str, Cow<'a, str>); 5]>,
    never_indexed: NeverIndexed,
    headers: &'a HeaderMap,
    omitted: fn(&HeaderName) -> bool,
}

impl<'a> Fields<'a> {
    /// Returns the field lines in the order in which they are sent.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let pseudo = self.pseudo.iter().map(|(name, value)| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
            sensitive: self.never_indexed.contains(&name.as_bytes()[1..]),
        });
        let regular =
            self.headers.iter().filter(|(name, _)| !(self.omitted)(name)).map(|(name, value)| Field {
                name: name.as_str().as_bytes(),
                value: value.as_bytes(),
                sensitive: is_sensitive(name, value),
            });
        pseudo.chain(regular)
    }

    /// Returns the section's size in bytes, as defined for SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §4.2.2).
    pub fn section_size(&self) -> u64 {
        self.iter().map(|field| (field.name.len() + field.value.len()) as u64 + FIELD_OVERHEAD).sum()
    }

    fn new(headers: &'a HeaderMap, never_indexed: NeverIndexed, omitted: fn(&HeaderName) -> bool) -> Self {
        Self { pseudo: SmallVec::new(), never_indexed, headers, omitted }
    }

    fn push(&mut self, name: &'static str, value: impl Into<Cow<'a, str>>) {
        self.pseudo.push((name, value.into()));
    }
}

/// Returns the header section of a request. The scheme is https if the URI has none. A `host` field replaces
/// the URI's authority, and is sent as `:authority` (RFC 9114 §4.3.1).
///
/// # Errors
///
/// Fails if the request has no valid authority, if it has connection-specific fields, or if it cannot be sent
/// over HTTP/3 for another reason: CONNECT needs a port, for instance (RFC 9114 §4.4).
pub fn request_fields(parts: &request::Parts) -> Result<Fields<'_>, InvalidMessage> {
    check_fields(&parts.headers)?;
    let protocol = parts.extensions.get::<Protocol>();
    if protocol.is_some() && parts.method != Method::CONNECT {
        return Err(InvalidMessage("a protocol without CONNECT"));
    }
    let mut never_indexed = NeverIndexed::of(&parts.extensions);
    if parts.headers.get(HOST).is_some_and(HeaderValue::is_sensitive) {
        never_indexed.add(b"authority");
    }
    let mut fields = Fields::new(&parts.headers, never_indexed, |name| name == HOST);
    fields.push(":method", parts.method.as_str());
    if parts.method != Method::CONNECT || protocol.is_some() {
        fields.push(":scheme", parts.uri.scheme().unwrap_or(&Scheme::HTTPS).as_str());
        fields.push(":path", path(&parts.uri, &parts.method));
    }
    let authority = authority(&parts.uri, &parts.headers)?;
    if parts.method == Method::CONNECT && protocol.is_none() && !has_port(authority) {
        return Err(InvalidMessage("CONNECT without a port"));
    }
    fields.push(":authority", authority);
    if let Some(protocol) = protocol {
        fields.push(":protocol", protocol.as_str());
    }
    Ok(fields)
}

/// Returns the header section of a final or interim response. Connection-specific fields and `te` are
/// silently left out, because frameworks add them for HTTP/1.
///
/// # Errors
///
/// Fails for status 101, which does not exist in HTTP/3 (RFC 9114 §4.5).
pub fn response_fields(parts: &response::Parts) -> Result<Fields<'_>, InvalidMessage> {
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(InvalidMessage("status 101"));
    }
    let never_indexed = NeverIndexed::of(&parts.extensions);
    let omitted = |name: &HeaderName| is_connection_specific(name.as_str().as_bytes()) || name == TE;
    let mut fields = Fields::new(&parts.headers, never_indexed, omitted);
    fields.push(":status", parts.status.as_str());
    Ok(fields)
}

/// Returns a trailer section.
///
/// # Errors
///
/// Fails if the trailers have a connection-specific field or a `te` field, which only a request's header section may have
/// (RFC 9114 §4.2).
pub fn trailer_fields(trailers: &HeaderMap) -> Result<Fields<'_>, InvalidMessage> {
    check_fields(trailers)?;
    if trailers.contains_key(TE) {
        return Err(InvalidMessage("te in trailers"));
    }
    Ok(Fields::new(trailers, NeverIndexed::default(), |_| false))
}

fn check_fields(headers: &HeaderMap) -> Result<(), InvalidMessage> {
    for (name, value) in headers {
        if is_connection_specific(name.as_str().as_bytes()) {
            return Err(InvalidMessage("a connection-specific field"));
        }
        if name == TE && !value.as_bytes().eq_ignore_ascii_case(b"trailers") {
            return Err(InvalidMessage("te with another value than trailers"));
        }
    }
    Ok(())
}

fn authority<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, InvalidMessage> {
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (hosts.next(), hosts.next(), uri.authority()) {
        (Some(_), Some(_), _) => return Err(InvalidMessage("two host fields")),
        (Some(host), None, _) => host.to_str().map_err(|_| InvalidMessage("a host that is not ASCII"))?,
        (None, _, Some(authority)) => authority.as_str(),
        (None, _, None) => return Err(InvalidMessage("no authority")),
    };
    if authority.is_empty() || authority.contains('@') {
        return Err(InvalidMessage("an authority that is empty or has user information"));
    }
    Ok(authority)
}

/// Returns the path with its query. If the URI has no path, the path is "/", or "*" for an OPTIONS request
/// about the whole server.
fn path<'a>(uri: &'a Uri, method: &Method) -> Cow<'a, str> {
    match uri.path_and_query().map_or("", |path| path.as_str()) {
        "*" if *method == Method::OPTIONS => "*".into(),
        path if path.starts_with('/') => path.into(),
        "" | "*" => "/".into(),
        query => format!("/{query}").into(),
    }
}

fn is_sensitive(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive()
        || name == AUTHORIZATION
        || name == PROXY_AUTHORIZATION
        || name == SET_COOKIE
        || (name == COOKIE && value.len() < GUESSABLE_COOKIE)
}
