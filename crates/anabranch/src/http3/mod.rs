//! HTTP/3 (RFC 9114).
//!
//! [`Client`] sends requests by URL. [`Server`] responds to requests with a [`tower_service::Service`], for
//! instance an `axum::Router`. Both use messages of the `http` crate with bodies that are
//! [`http_body::Body`]. Below them, [`Connection`] provides the two halves of each request, [`SendHalf`] and
//! [`RecvHalf`], in either role.
//!
//! The protocol itself is the sans-IO session in `anabranch-http3`. It runs in the driver's turn, under its
//! connection's lock. Streams need no tasks, and bodies stay in the transport's buffers until they are read.

mod body;
mod client;
mod connection;
mod datagrams;
mod error;
mod exchange;
mod half;
mod limits;
mod pace;
mod pump;
mod recv_half;
mod send_half;
mod server;
mod stall;
mod state;

pub use anabranch_http3::message::{InvalidMessage, Protocol};
pub use anabranch_http3::{Code, Config, Error as ProtocolError, Priority, Settings};

pub use self::body::Body;
pub use self::client::{Client, ClientBuilder};
pub use self::connection::{Connection, ConnectionInfo};
pub use self::datagrams::Datagrams;
pub use self::error::Error;
#[cfg(feature = "proxy")]
pub(crate) use self::error::is_no_error;
pub use self::limits::Limits;
pub use self::recv_half::RecvHalf;
pub use self::send_half::SendHalf;
pub use self::server::{ServeOptions, Server, Shutdown, serve_connection};
pub use self::stall::StalledResponses;
