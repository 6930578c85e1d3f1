//! Tunnels: TCP connections and UDP flows of other programs, carried over HTTP/3 and, with several paths, over all of them.
//!
//! [`server`] is the proxy: a service that responds to CONNECT (RFC 9110 §9.3.6) and CONNECT-UDP (RFC 9298). [`client`]
//! opens tunnels through such a proxy.

pub mod client;
pub mod server;
