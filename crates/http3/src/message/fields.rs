//! From a message to field lines, pseudo-headers first.

use std::borrow::Cow;

use http::header::{AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION, SET_COOKIE, TE};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, request, response};
use smallvec::SmallVec;

use super::{InvalidMessage, Protocol, is_connection_specific};
use crate::qpack::Field;

/// Cookies shorter than this are never indexed: a short one could be guessed by watching how it compresses
/// (RFC 9204 §7.1.3).
pub(super) const GUESSABLE_COOKIE: usize = 20;

/// Bytes that each line counts for beside its name and value (RFC 9114 §4.2.2).
const FIELD_OVERHEAD: u64 = 32;

/// The field lines of a message that is to be sent.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    pseudo: SmallVec<[(&'static str, Cow<'a, str>); 5]>,
    headers: &'a HeaderMap,
    omitted: fn(&HeaderName) -> bool,
}

impl<'a> Fields<'a> {
    /// Returns the lines in their order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let pseudo = self.pseudo.iter().map(|(name, value)| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
            sensitive: false,
        });
        let regular =
            self.headers.iter().filter(|(name, _)| !(self.omitted)(name)).map(|(name, value)| Field {
                name: name.as_str().as_bytes(),
                value: value.as_bytes(),
                sensitive: is_sensitive(name, value),
            });
        pseudo.chain(regular)
    }

    /// Returns the size that a peer's limit is compared with (RFC 9114 §4.2.2), in bytes.
    pub fn section_size(&self) -> u64 {
        self.iter().map(|field| (field.name.len() + field.value.len()) as u64 + FIELD_OVERHEAD).sum()
    }

    fn new(headers: &'a HeaderMap, omitted: fn(&HeaderName) -> bool) -> Self {
        Self { pseudo: SmallVec::new(), headers, omitted }
    }

    fn push(&mut self, name: &'static str, value: impl Into<Cow<'a, str>>) {
        self.pseudo.push((name, value.into()));
    }
}

/// Returns the header section of a request. The scheme is https unless the URI has one; a `host` field takes
/// the place of the URI's authority and is sent as `:authority` (RFC 9114 §4.3.1).
///
/// # Errors
///
/// There is no authority, the fields are connection-specific, or the message is otherwise none of HTTP/3.
pub fn request_fields(parts: &request::Parts) -> Result<Fields<'_>, InvalidMessage> {
    check_fields(&parts.headers)?;
    let protocol = parts.extensions.get::<Protocol>();
    if protocol.is_some() && parts.method != Method::CONNECT {
        return Err(InvalidMessage("a protocol without CONNECT"));
    }
    let mut fields = Fields::new(&parts.headers, |name| name == HOST);
    fields.push(":method", parts.method.as_str());
    if parts.method != Method::CONNECT || protocol.is_some() {
        fields.push(":scheme", parts.uri.scheme().unwrap_or(&Scheme::HTTPS).as_str());
        fields.push(":path", path(&parts.uri, &parts.method));
    }
    fields.push(":authority", authority(&parts.uri, &parts.headers)?);
    if let Some(protocol) = protocol {
        fields.push(":protocol", protocol.as_str());
    }
    Ok(fields)
}

/// Returns the header section of a response or interim response. Connection-specific fields are left out
/// silently, because frameworks add them for HTTP/1.
///
/// # Errors
///
/// Status 101, which HTTP/3 does not have (RFC 9114 §4.5).
pub fn response_fields(parts: &response::Parts) -> Result<Fields<'_>, InvalidMessage> {
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(InvalidMessage("status 101"));
    }
    let mut fields =
        Fields::new(&parts.headers, |name| is_connection_specific(name.as_str().as_bytes()) || name == TE);
    fields.push(":status", parts.status.as_str());
    Ok(fields)
}

/// Returns a trailer section.
///
/// # Errors
///
/// The fields are connection-specific.
pub fn trailer_fields(trailers: &HeaderMap) -> Result<Fields<'_>, InvalidMessage> {
    check_fields(trailers)?;
    Ok(Fields::new(trailers, |_| false))
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

/// Returns the path with its query. For a URI without a path it is a slash, or the asterisk when OPTIONS asks
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
