//! Credentials in a client's request.

use data_encoding::BASE64;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue};

use super::{MAX_NAME, MAX_SECRET};
use crate::proxy::server::target::Carried;

/// Maximum length of the field's value, in bytes: enough for the longest credentials in base64, with the scheme.
const MAX_FIELD: usize = (MAX_NAME + MAX_SECRET) * 2;

/// A user's name and secret from a client's request, which are not verified yet.
pub(in crate::proxy::server) struct Shown {
    pub(super) name: String,
    pub(super) secret: Vec<u8>,
}

impl Shown {
    /// Returns the credentials in `Proxy-Authorization`, if there are any. Requests of CONNECT-UDP and CONNECT-IP have a path,
    /// and some clients send `Authorization` with them, as to an origin server.
    pub(super) fn of(fields: &HeaderMap, carried: Carried) -> Option<Self> {
        let origin = || fields.get(AUTHORIZATION).filter(|_| carried != Carried::Tcp);
        fields.get(PROXY_AUTHORIZATION).or_else(origin).and_then(Self::parse)
    }

    fn parse(field: &HeaderValue) -> Option<Self> {
        let text = field.to_str().ok().filter(|text| text.len() <= MAX_FIELD)?;
        let (scheme, rest) = text.trim().split_once(' ')?;
        let rest = rest.trim_start_matches(' ');
        // RFC 9110 §11.1: the scheme is case-insensitive.
        if scheme.eq_ignore_ascii_case("basic") {
            let bytes = BASE64.decode(rest.as_bytes()).ok()?;
            // RFC 7617 §2: the first colon ends the name.
            let colon = bytes.iter().position(|byte| *byte == b':')?;
            let name = String::from_utf8(bytes[..colon].to_vec()).ok()?;
            return Some(Self { name, secret: bytes[colon + 1..].to_vec() });
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            // A token is the user's name, a dot and the secret. With the name, only one user's hash has to be computed.
            let (name, secret) = rest.split_once('.')?;
            return Some(Self { name: name.to_owned(), secret: secret.as_bytes().to_vec() });
        }
        None
    }

    /// Returns whether a user's name and secret can have these lengths.
    pub(super) fn is_plausible(&self) -> bool {
        self.name.len() <= MAX_NAME && (1..=MAX_SECRET).contains(&self.secret.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, String)> {
        let shown = Shown::parse(&HeaderValue::from_str(text).unwrap())?;
        Some((shown.name, String::from_utf8(shown.secret).unwrap()))
    }

    #[test]
    fn both_schemes_name_a_user() {
        let expected = Some(("alice".to_owned(), "a:b.c".to_owned()));
        assert_eq!(parse(&format!("Basic {}", BASE64.encode(b"alice:a:b.c"))), expected);
        assert_eq!(parse(&format!("bAsIc  {}", BASE64.encode(b"alice:a:b.c"))), expected);
        assert_eq!(parse("BEARER alice.a:b.c"), expected);
        for bad in ["", "Basic", "Basic !", "Basic YWxpY2U=", "Bearer alice", "Digest alice.x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(parse(&format!("Bearer a.{}", "x".repeat(MAX_FIELD))), None);
    }

    #[test]
    fn the_origins_field_serves_for_requests_with_a_path_only() {
        let mut fields = HeaderMap::new();
        fields.insert(AUTHORIZATION, HeaderValue::from_static("Bearer a.b"));
        assert!(Shown::of(&fields, Carried::Udp).is_some() && Shown::of(&fields, Carried::Ip).is_some());
        assert!(Shown::of(&fields, Carried::Tcp).is_none());
    }
}
