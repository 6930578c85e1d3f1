//! The proxy service: tunnels for CONNECT (RFC 9110 §9.3.6), CONNECT-UDP (RFC 9298) and CONNECT-IP (RFC 9484).
//!
//! [`Proxy`] authenticates users, checks targets and opens tunnels. [`ProxyService`] is its [`tower_service::Service`] for
//! HTTP/3; it passes requests that are not for a tunnel to another service, for instance an `axum::Router`. For other
//! versions of HTTP, [`Proxy::open`] opens a tunnel, and [`Tunnel::relay`] carries it on an upgraded connection.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
//! use anabranch::http3::{Limits, Server};
//! use anabranch::proxy::server::{Access, Nothing, Proxy, ProxyOptions, ProxyService, User, Users, hash_secret};
//! use anabranch::{Endpoint, SelfSigned};
//!
//! let mut users = Users::new();
//! users.add(User::new("alice", &hash_secret(b"tea")?)?)?;
//! let access = Access::default().with_allow(["10.0.0.0/8:5432".parse()?]);
//! let proxy = Proxy::new(ProxyOptions::default(), users, access)?;
//!
//! let identity = SelfSigned::new(["localhost"])?;
//! let endpoint = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
//! // Each tunnel occupies the handler of its request until it ends.
//! let limits = Limits::default().with_max_handlers(1_024);
//! let server = Server::new(endpoint, ProxyService::new(proxy, Nothing)).limits(limits);
//! tokio::spawn(server.serve());
//! # Ok(()) }
//! ```

mod access;
mod body;
mod buffer;
mod dial;
mod flow;
mod ip;
mod limits;
mod proxy;
mod refusal;
mod service;
pub(super) mod target;
mod tcp;
mod tunnel;
mod udp;
mod users;

pub use self::access::{Access, InvalidRule, Rule, is_forbidden};
pub use self::body::TunnelBody;
pub use self::dial::{Resolve, Resolving, SystemResolver};
pub use self::flow::{Observer, Outcome, Record};
pub use self::ip::{InvalidPool, IpDrops, IpNetwork, MAX_ASSIGNED, PacketSink};
pub use self::limits::UserLimits;
pub use self::proxy::{Asked, Proxy, ProxyOptions, UserTotals};
pub use self::refusal::{Cause, Refusal};
pub use self::service::{Nothing, ProxyService};
pub use self::target::Carried;
pub use self::tunnel::Tunnel;
pub use self::users::{KnownUser, User, UserError, Users, hash_secret};
