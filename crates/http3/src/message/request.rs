//! Validation of received requests: checks that the required pseudo-headers are present (RFC 9114 §4.3.1,
//! §4.4; RFC 8441 §4), and builds the URI from them.

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri, Version, request, uri};

use super::{FieldGatherer, Malformed, has_port};

impl FieldGatherer {
    /// Returns this header section as a request. The extensions of an extended CONNECT request contain its
    /// [`Protocol`](super::Protocol). The caller decides whether to accept it.
    ///
    /// # Errors
    ///
    /// Fails if the request is malformed (RFC 9114 §4.1.2, §4.3.1, §4.4).
    pub fn into_request(mut self) -> Result<request::Parts, Malformed> {
        let headers = self.take_request_headers()?;
        let method = self.method.take().ok_or(Malformed("no :method"))?;
        let (protocol, never_indexed) = (self.protocol.take(), self.never_indexed);
        if protocol.is_some() && method != Method::CONNECT {
            return Err(Malformed(":protocol without CONNECT"));
        }
        let uri = if method == Method::CONNECT && protocol.is_none() {
            self.connect_uri(&headers)?
        } else {
            self.uri(&method, &headers)?
        };
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.version = Version::HTTP_3;
        parts.method = method;
        parts.uri = uri;
        parts.headers = headers;
        if let Some(protocol) = protocol {
            parts.extensions.insert(protocol);
        }
        never_indexed.mark(&mut parts.extensions);
        Ok(parts)
    }

    /// Returns the URI of a CONNECT request, which consists of an authority with a port only.
    fn connect_uri(self, headers: &HeaderMap) -> Result<Uri, Malformed> {
        if self.scheme.is_some() || self.path.is_some() {
            return Err(Malformed("CONNECT with :scheme or :path"));
        }
        if self.authority.is_none() {
            return Err(Malformed("CONNECT without :authority"));
        }
        let mut parts = uri::Parts::default();
        parts.authority = authority(self.authority, headers, true)?;
        if !parts.authority.as_ref().is_some_and(|authority| has_port(authority.as_str())) {
            return Err(Malformed("CONNECT without a port"));
        }
        Uri::from_parts(parts).map_err(|_| Malformed("an invalid URI"))
    }

    fn uri(self, method: &Method, headers: &HeaderMap) -> Result<Uri, Malformed> {
        let scheme = self.scheme.ok_or(Malformed("no :scheme"))?;
        let path = path(self.path.ok_or(Malformed("no :path"))?, method)?;
        let needs_authority = scheme == Scheme::HTTPS || scheme == Scheme::HTTP;
        if self.protocol.is_some() && self.authority.is_none() {
            return Err(Malformed("extended CONNECT without :authority"));
        }
        let mut parts = uri::Parts::default();
        parts.authority = authority(self.authority, headers, needs_authority)?;
        parts.path_and_query = Some(path);
        // `Uri` does not permit a scheme without an authority.
        parts.scheme = parts.authority.is_some().then_some(scheme);
        Uri::from_parts(parts).map_err(|_| Malformed("an invalid URI"))
    }
}

/// Returns the authority from `:authority` or `host`, which must agree if both are present. If `needed` is
/// set, as for http, https and CONNECT, one of them must be present, with a host and without user
/// information.
fn authority(
    pseudo: Option<Bytes>,
    headers: &HeaderMap,
    needed: bool,
) -> Result<Option<Authority>, Malformed> {
    let host = headers.get(HOST).map(|host| host.as_bytes());
    let value = match (pseudo, host) {
        (Some(pseudo), Some(host)) if !pseudo.eq_ignore_ascii_case(host) => {
            return Err(Malformed(":authority and host differ"));
        }
        (Some(pseudo), _) => pseudo,
        (None, Some(host)) => Bytes::copy_from_slice(host),
        (None, None) if needed => return Err(Malformed("neither :authority nor host")),
        (None, None) => return Ok(None),
    };
    let user_information = value.contains(&b'@');
    let authority =
        Authority::from_maybe_shared(value).map_err(|_| Malformed("the authority is empty or invalid"))?;
    if needed && (user_information || authority.host().is_empty()) {
        return Err(Malformed("an authority with user information or without a host"));
    }
    Ok(Some(authority))
}

/// Parses a path. It must begin with a slash, or be "*" for OPTIONS.
fn path(value: Bytes, method: &Method) -> Result<PathAndQuery, Malformed> {
    match &value[..] {
        b"/" => return Ok(PathAndQuery::from_static("/")),
        b"*" if *method == Method::OPTIONS => return Ok(PathAndQuery::from_static("*")),
        [b'/', ..] if !value.contains(&b'#') => {}
        _ => return Err(Malformed(":path is empty, does not begin with a slash or has a fragment")),
    }
    PathAndQuery::from_maybe_shared(value).map_err(|_| Malformed("an invalid :path"))
}
