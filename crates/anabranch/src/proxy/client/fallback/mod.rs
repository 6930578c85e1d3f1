//! Tunnels over HTTP/2 (RFC 9113), for networks that block UDP: TCP on one path.
//!
//! TLS trusts the same servers as QUIC does, and shows the same certificate. CONNECT carries TCP (RFC 9113 §8.5), extended
//! CONNECT (RFC 8441) with capsules (RFC 9297) everything else. A connection ends when neither the client nor a tunnel uses
//! it.

mod connect;
mod connection;
mod dial;
mod error;
mod receive;
mod send;
mod stream;

pub use self::error::Http2Error;

pub(super) use self::connect::connect;
pub(super) use self::connection::Connection;
pub(super) use self::error::TcpFailure;
pub(super) use self::receive::RecvHalf;
pub(super) use self::send::SendHalf;

/// Maximum number of tunnels on a connection. Further ones wait.
const MAX_TUNNELS: usize = 512;
/// Maximum number of bytes of a tunnel that were received and not yet read by the program (`SETTINGS_INITIAL_WINDOW_SIZE`).
const STREAM_WINDOW: u32 = 1 << 20;
/// Maximum number of such bytes of all tunnels. There is room for all of their windows, so that a program that reads nothing
/// does not hold up the tunnels of others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_TUNNELS as u32;
/// Maximum number of bytes of a tunnel that wait to be written to the connection.
const MAX_SEND_BUFFER: usize = 128 * 1024;
/// Maximum size of a response's header section, in bytes (`SETTINGS_MAX_HEADER_LIST_SIZE`).
const MAX_HEADER: u32 = 32 * 1024;
