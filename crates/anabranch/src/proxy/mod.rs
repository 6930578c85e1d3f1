//! Tunnels: TCP connections and UDP flows of other programs, carried over HTTP/3 and, with several paths, over all of them.
//!
//! [`server`] is the proxy: a service that responds to CONNECT (RFC 9110 §9.3.6), CONNECT-UDP (RFC 9298) and CONNECT-IP
//! (RFC 9484). [`client`] opens tunnels through such a proxy. [`ip`] is what both need to know about IP packets.

pub mod client;
mod copies;
pub mod ip;
mod order;
pub mod server;

pub use self::copies::FlowTerms;
