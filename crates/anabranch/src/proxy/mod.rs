//! Tunnels over HTTP/3 for the TCP connections, UDP flows and IP packets of other programs. With Multipath QUIC they use all
//! paths of the connection.
//!
//! [`server`] is the proxy: a service that responds to CONNECT (RFC 9110 §9.3.6), CONNECT-UDP (RFC 9298) and CONNECT-IP
//! (RFC 9484). [`client`] opens tunnels through such a proxy. [`ip`] has the packet headers, ICMP messages and capsules that
//! both use for CONNECT-IP.

pub mod client;
mod copies;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod ip;
mod order;
pub mod server;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};

pub use self::copies::FlowTerms;

/// Returns whether a message has fields that describe content, which messages with capsules must not have (RFC 9297 §3.2).
fn has_content_fields(fields: &HeaderMap) -> bool {
    [CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING].iter().any(|name| fields.contains_key(name))
}
