//! Reasons why a tunnel is not opened, and the responses that report them.

use std::fmt;
use std::net::SocketAddr;

use http::header::{PROXY_AUTHENTICATE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use sfv::{ListSerializer, StringRef, TokenRef, key_ref, token_ref};

/// Name of the field `Proxy-Status` (RFC 9209 §2).
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
/// Name of this proxy in `Proxy-Status`.
const NAME: &TokenRef = token_ref("anabranch");
/// Challenges of the supported authentication schemes (RFC 7617, RFC 6750).
const CHALLENGES: [&str; 2] = ["Basic realm=\"proxy\", charset=\"UTF-8\"", "Bearer realm=\"proxy\""];
/// Value of `Retry-After` for a client that has sent too many wrong secrets, in seconds.
const RETRY: HeaderValue = HeaderValue::from_static("6");

/// Reason why a tunnel was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// The request names no valid target.
    Malformed,
    /// The request has no valid credentials.
    Unauthenticated,
    /// Clients of the client's network have sent too many wrong secrets.
    TooManySecrets,
    /// Too many requests wait for the verification of their secrets.
    Overloaded,
    /// The user has as many tunnels or connections, or the proxy as many tunnels, as are allowed.
    Limit,
    /// The access list denies the target's name or port.
    Denied,
    /// The access list denies every address of the target.
    ForbiddenAddress,
    /// The name could not be resolved.
    Resolution,
    /// The name could not be resolved in time.
    ResolutionTimeout,
    /// The proxy has no route to the target.
    Unroutable,
    /// The target refused the connection.
    Refused,
    /// The target did not respond in time.
    Timeout,
    /// The target reset the connection before it was established.
    Terminated,
    /// The proxy does not support tunnels of the requested kind.
    Unsupported,
    /// An error occurred in the proxy itself.
    Internal,
}

impl Cause {
    /// Returns the proxy error type (RFC 9209 §2.3), if one applies, and the status of the response.
    fn reported(self) -> (Option<&'static TokenRef>, StatusCode) {
        match self {
            Self::Malformed => (Some(token_ref("http_request_error")), StatusCode::BAD_REQUEST),
            Self::Unauthenticated => (None, StatusCode::PROXY_AUTHENTICATION_REQUIRED),
            Self::TooManySecrets => (Some(token_ref("http_request_denied")), StatusCode::TOO_MANY_REQUESTS),
            Self::Overloaded => (Some(token_ref("proxy_internal_response")), StatusCode::SERVICE_UNAVAILABLE),
            Self::Limit => (Some(token_ref("connection_limit_reached")), StatusCode::SERVICE_UNAVAILABLE),
            Self::Denied => (Some(token_ref("http_request_denied")), StatusCode::FORBIDDEN),
            Self::ForbiddenAddress => (Some(token_ref("destination_ip_prohibited")), StatusCode::BAD_GATEWAY),
            Self::Resolution => (Some(token_ref("dns_error")), StatusCode::BAD_GATEWAY),
            Self::ResolutionTimeout => (Some(token_ref("dns_timeout")), StatusCode::GATEWAY_TIMEOUT),
            Self::Unroutable => (Some(token_ref("destination_ip_unroutable")), StatusCode::BAD_GATEWAY),
            Self::Refused => (Some(token_ref("connection_refused")), StatusCode::BAD_GATEWAY),
            Self::Timeout => (Some(token_ref("connection_timeout")), StatusCode::GATEWAY_TIMEOUT),
            Self::Terminated => (Some(token_ref("connection_terminated")), StatusCode::BAD_GATEWAY),
            Self::Unsupported => (Some(token_ref("http_upgrade_failed")), StatusCode::NOT_IMPLEMENTED),
            Self::Internal => (Some(token_ref("proxy_internal_error")), StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Returns the status of the response.
    pub fn status(self) -> StatusCode {
        self.reported().1
    }

    /// Returns the name of the cause for logs and metrics: the error type of RFC 9209 where there is one.
    pub fn name(self) -> &'static str {
        self.reported().0.map_or("unauthenticated", TokenRef::as_str)
    }
}

/// Refusal to open a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    cause: Cause,
    details: String,
    next_hop: Option<SocketAddr>,
}

impl Refusal {
    pub(super) fn new(cause: Cause, details: impl Into<String>) -> Self {
        Self { cause, details: details.into(), next_hop: None }
    }

    /// Returns the refusal with the address to which the proxy tried to connect.
    pub(super) fn at(self, address: SocketAddr) -> Self {
        Self { next_hop: Some(address), ..self }
    }

    /// Returns the reason.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the response, which has no content.
    pub fn response(&self) -> Response<()> {
        let mut response = Response::new(());
        let (error, status) = self.cause.reported();
        *response.status_mut() = status;
        let fields = response.headers_mut();
        if let Some(error) = error {
            fields.extend(self.proxy_status(error).map(|value| (PROXY_STATUS, value)));
        }
        match self.cause {
            Cause::Unauthenticated => {
                for challenge in CHALLENGES {
                    fields.append(PROXY_AUTHENTICATE, HeaderValue::from_static(challenge));
                }
            }
            Cause::TooManySecrets => _ = fields.insert(RETRY_AFTER, RETRY),
            _ => {}
        }
        response
    }

    /// Returns the value of `Proxy-Status`. Details that are not printable ASCII are left out.
    fn proxy_status(&self, error: &TokenRef) -> Option<HeaderValue> {
        let mut list = ListSerializer::new();
        let mut item = list.bare_item(NAME).parameter(key_ref("error"), error);
        let next_hop = self.next_hop.map(|address| address.ip().to_string());
        if let Some(Ok(address)) = next_hop.as_deref().map(StringRef::from_str) {
            item = item.parameter(key_ref("next-hop"), address);
        }
        if let Ok(details) = StringRef::from_str(&self.details) {
            let _ = item.parameter(key_ref("details"), details);
        }
        list.finish().and_then(|value| HeaderValue::try_from(value).ok())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.details)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(response: &Response<()>) -> &str {
        response.headers().get(PROXY_STATUS).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn causes_have_the_status_of_the_standard() {
        for (cause, error, status) in [
            (Cause::Malformed, "http_request_error", 400),
            (Cause::TooManySecrets, "http_request_denied", 429),
            (Cause::Overloaded, "proxy_internal_response", 503),
            (Cause::Limit, "connection_limit_reached", 503),
            (Cause::Denied, "http_request_denied", 403),
            (Cause::ForbiddenAddress, "destination_ip_prohibited", 502),
            (Cause::Resolution, "dns_error", 502),
            (Cause::ResolutionTimeout, "dns_timeout", 504),
            (Cause::Unroutable, "destination_ip_unroutable", 502),
            (Cause::Refused, "connection_refused", 502),
            (Cause::Timeout, "connection_timeout", 504),
            (Cause::Terminated, "connection_terminated", 502),
            (Cause::Unsupported, "http_upgrade_failed", 501),
            (Cause::Internal, "proxy_internal_error", 500),
        ] {
            let response = Refusal::new(cause, "because").response();
            assert_eq!(response.status(), status, "{cause:?}");
            assert!(!response.headers().contains_key("capsule-protocol"), "{cause:?}");
            assert_eq!(field(&response), format!("anabranch;error={error};details=\"because\""));
        }
        let at = Refusal::new(Cause::Refused, "said \"no\"").at("[2001:db8::1]:80".parse().unwrap());
        let expected = r#"anabranch;error=connection_refused;next-hop="2001:db8::1";details="said \"no\"""#;
        assert_eq!(field(&at.response()), expected);
        assert_eq!(
            field(&Refusal::new(Cause::Internal, "ü").response()),
            "anabranch;error=proxy_internal_error"
        );
    }

    #[test]
    fn clients_learn_how_to_authenticate() {
        let response = Refusal::new(Cause::Unauthenticated, "who?").response();
        assert_eq!(response.status(), 407);
        assert_eq!(response.headers().get_all(PROXY_AUTHENTICATE).iter().count(), CHALLENGES.len());
        assert_eq!(field(&response), "");
    }
}
