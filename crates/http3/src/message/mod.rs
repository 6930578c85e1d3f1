//! Conversion between HTTP messages and field sections (RFC 9114 §4). Messages of the peer are validated;
//! messages of the application are encoded.

mod fields;
mod gatherer;
mod length;
mod never_indexed;
mod protocol;
mod request;
#[cfg(test)]
mod tests;

pub use self::fields::{Fields, request_fields, response_fields, trailer_fields};
pub use self::gatherer::FieldGatherer;
pub use self::length::content_length;
use self::never_indexed::NeverIndexed;
pub use self::protocol::Protocol;

/// Reason that the peer's message is malformed, which is a stream error of type H3_MESSAGE_ERROR (RFC 9114
/// §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub &'static str);

/// Reason that the application's message cannot be sent over HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be sent over HTTP/3: {0}")]
pub struct InvalidMessage(pub &'static str);

/// Returns whether a field is specific to an HTTP/1 connection and therefore prohibited in HTTP/3 (RFC 9114
/// §4.2).
const fn is_connection_specific(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade")
}

/// Returns whether an authority ends in a port, which a CONNECT request needs (RFC 9114 §4.4).
fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok()
}
