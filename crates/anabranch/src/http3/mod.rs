//! HTTP/3 (RFC 9114).

mod body;
mod client;
mod connection;
mod datagrams;
mod error;
mod exchange;
mod limits;
mod pace;
mod pump;
mod recv_half;
mod send_half;
mod server;
mod state;

pub use anabranch_http3::message::Protocol;
pub use anabranch_http3::{Code, Config, Priority, Settings};

pub use self::body::Body;
pub use self::client::{Client, ClientBuilder};
pub use self::connection::{Connection, ConnectionInfo};
pub use self::datagrams::Datagrams;
pub use self::error::Error;
pub use self::limits::Limits;
pub use self::recv_half::RecvHalf;
pub use self::send_half::SendHalf;
pub use self::server::{ServeOptions, Server, Shutdown, serve_connection};
pub(crate) use self::state::Http3State;
