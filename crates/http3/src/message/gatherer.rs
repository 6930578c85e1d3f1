//! Conversion of field lines to an HTTP message. Each line is checked as it is added.

use bytes::{Bytes, BytesMut};
use http::header::{COOKIE, HOST};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, response};

use super::{Malformed, NeverIndexed, Protocol, is_connection_specific};

/// Size of the memory block that holds field values, in bytes. Several messages of usual size share a block.
/// A block is freed when the last value in it is dropped.
const BLOCK: usize = 4096;

/// Number of field lines for which a message's header map is allocated initially.
const USUAL_FIELDS: usize = 6;

/// Builder of a message from the lines of one field section.
///
/// After an error the whole section must be discarded. The QPACK decoder limits the section's size and its
/// number of lines.
#[derive(Debug, Default)]
pub struct FieldGatherer {
    pub(super) method: Option<Method>,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Option<Bytes>,
    pub(super) path: Option<Bytes>,
    pub(super) protocol: Option<Protocol>,
    status: Option<StatusCode>,
    pub(super) never_indexed: NeverIndexed,
    /// `true` if there is a `te` field, which only requests may have (RFC 9114 §4.2).
    has_te: bool,
    /// `true` once a regular field was added; pseudo-headers must precede all regular fields.
    is_regular: bool,
    headers: HeaderMap,
    /// Values of the `cookie` lines so far, joined with a semicolon and a space (RFC 9114 §4.2.1).
    cookie: Vec<u8>,
    cookie_sensitive: bool,
    /// Block of memory that the values share. A shared block is cheaper than an allocation for each value.
    block: BytesMut,
}

impl FieldGatherer {
    /// Creates an empty gatherer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty gatherer that reuses a block from [`Self::take_block`].
    pub fn with_block(block: BytesMut) -> Self {
        Self { block, ..Self::default() }
    }

    /// Returns the unused rest of the block, for the next section's gatherer.
    pub fn take_block(&mut self) -> BytesMut {
        std::mem::take(&mut self.block)
    }

    /// Adds the next field line of the section. The value of a never-indexed line is marked as sensitive, so
    /// that a proxy that forwards the line does not index it either (RFC 9204 §4.5.4). Pseudo-headers are marked in the
    /// message's extensions.
    ///
    /// # Errors
    ///
    /// Fails if this line makes the message malformed (RFC 9114 §4.2, §4.3). Other checks need the whole
    /// section and follow later.
    pub fn add(&mut self, name: &[u8], value: &[u8], never_indexed: bool) -> Result<(), Malformed> {
        match name.strip_prefix(b":") {
            Some(pseudo) => {
                if never_indexed {
                    self.never_indexed.add(pseudo);
                }
                self.add_pseudo(pseudo, value)
            }
            None => self.add_regular(name, value, never_indexed),
        }
    }

    /// Returns this header section as a final or interim response.
    ///
    /// # Errors
    ///
    /// Fails if the response is malformed (RFC 9114 §4.1.2, §4.3.2) or has status 101 (§4.5).
    pub fn into_response(mut self) -> Result<response::Parts, Malformed> {
        if self.has_request_pseudo() {
            return Err(Malformed("a pseudo-header of requests in a response"));
        }
        let headers = self.take_headers_without_te()?;
        let status = self.status.ok_or(Malformed("no :status"))?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Malformed("status 101"));
        }
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.version = Version::HTTP_3;
        parts.status = status;
        parts.headers = headers;
        self.never_indexed.mark(&mut parts.extensions);
        Ok(parts)
    }

    /// Returns this section as trailers.
    ///
    /// # Errors
    ///
    /// Fails if the trailers are malformed, for example because they contain a pseudo-header (RFC 9114 §4.3).
    pub fn into_trailers(mut self) -> Result<HeaderMap, Malformed> {
        if self.has_request_pseudo() || self.status.is_some() {
            return Err(Malformed("a pseudo-header in trailers"));
        }
        self.take_headers_without_te()
    }

    /// Returns the regular fields of a request. Fails if the section has `:status`.
    pub(super) fn take_request_headers(&mut self) -> Result<HeaderMap, Malformed> {
        if self.status.is_some() {
            return Err(Malformed(":status in a request"));
        }
        self.take_headers()
    }

    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if self.is_regular {
            return Err(Malformed("a pseudo-header after a regular field"));
        }
        match name {
            b"method" => {
                let method = Method::from_bytes(value).map_err(|_| Malformed(":method is no token"))?;
                set_once(&mut self.method, method)
            }
            b"scheme" => set_once(&mut self.scheme, scheme(value)?),
            b"authority" => {
                let value = self.keep(value);
                set_once(&mut self.authority, value)
            }
            b"path" => {
                let value = self.keep(value);
                set_once(&mut self.path, value)
            }
            b"protocol" => {
                let protocol = Protocol::from_bytes(value).ok_or(Malformed(":protocol is no token"))?;
                set_once(&mut self.protocol, protocol)
            }
            b"status" => {
                let status =
                    StatusCode::from_bytes(value).map_err(|_| Malformed(":status has not three digits"))?;
                set_once(&mut self.status, status)
            }
            _ => Err(Malformed("an unknown pseudo-header")),
        }
    }

    fn add_regular(&mut self, name: &[u8], value: &[u8], sensitive: bool) -> Result<(), Malformed> {
        self.is_regular = true;
        if is_connection_specific(name) {
            return Err(Malformed("a connection-specific field"));
        }
        if name == b"te" {
            if !value.eq_ignore_ascii_case(b"trailers") {
                return Err(Malformed("te with another value than trailers"));
            }
            self.has_te = true;
        }
        if name == b"cookie" {
            return self.add_cookie(value, sensitive);
        }
        // `HeaderName` accepts a quotation mark, which is not allowed in a token.
        let name = match HeaderName::from_lowercase(name) {
            Ok(parsed) if !name.contains(&b'"') => parsed,
            _ => return Err(Malformed("an invalid field name")),
        };
        if name == HOST && self.headers.contains_key(HOST) {
            return Err(Malformed("two host fields"));
        }
        if self.headers.is_empty() {
            self.headers.reserve(USUAL_FIELDS);
        }
        let value = self.keep(value);
        self.append(name, value, sensitive)
    }

    /// Appends a cookie line to those before it. The characters are checked when the section is complete.
    fn add_cookie(&mut self, value: &[u8], sensitive: bool) -> Result<(), Malformed> {
        if value.is_empty() {
            return Ok(());
        }
        if !self.cookie.is_empty() {
            self.cookie.extend_from_slice(b"; ");
        }
        self.cookie.extend_from_slice(value);
        self.cookie_sensitive |= sensitive;
        Ok(())
    }

    fn append(&mut self, name: HeaderName, value: Bytes, sensitive: bool) -> Result<(), Malformed> {
        let mut value =
            HeaderValue::from_maybe_shared(value).map_err(|_| Malformed("an invalid field value"))?;
        value.set_sensitive(sensitive);
        self.headers.try_append(name, value).map_err(|_| Malformed("too many fields"))?;
        Ok(())
    }

    /// Returns the regular fields of a response or of trailers. Fails if there is a `te` field.
    fn take_headers_without_te(&mut self) -> Result<HeaderMap, Malformed> {
        if self.has_te {
            return Err(Malformed("te outside of a request's header section"));
        }
        self.take_headers()
    }

    /// Returns the regular fields, including the joined cookies.
    fn take_headers(&mut self) -> Result<HeaderMap, Malformed> {
        if !self.cookie.is_empty() {
            let cookie = Bytes::from(std::mem::take(&mut self.cookie));
            self.append(COOKIE, cookie, self.cookie_sensitive)?;
        }
        Ok(std::mem::take(&mut self.headers))
    }

    const fn has_request_pseudo(&self) -> bool {
        self.method.is_some()
            || self.scheme.is_some()
            || self.authority.is_some()
            || self.path.is_some()
            || self.protocol.is_some()
    }

    fn keep(&mut self, value: &[u8]) -> Bytes {
        if self.block.capacity() < value.len() {
            self.block.reserve(value.len().max(BLOCK));
        }
        self.block.extend_from_slice(value);
        self.block.split().freeze()
    }
}

fn set_once<T>(place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed("a pseudo-header twice")),
    }
}

fn scheme(value: &[u8]) -> Result<Scheme, Malformed> {
    if value.eq_ignore_ascii_case(b"https") {
        return Ok(Scheme::HTTPS);
    }
    if value.eq_ignore_ascii_case(b"http") {
        return Ok(Scheme::HTTP);
    }
    match value {
        [first, ..] if first.is_ascii_alphabetic() => {
            Scheme::try_from(value).map_err(|_| Malformed(":scheme is no scheme"))
        }
        _ => Err(Malformed(":scheme is no scheme")),
    }
}
