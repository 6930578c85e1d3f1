//! The wire formats of QUIC: variable-length integers, frames, packet headers, versions, transport
//! parameters.
//!
//! The crate holds no state and takes no decision. It reads what a peer may have sent, with the error code
//! the RFCs ask for, and writes what the transport wants to send. Nothing outside of [`version`](Version)
//! tests a version number.
#![forbid(unsafe_code)]

mod alert;
mod code;
mod configuration;
mod cursor;
mod custom;
mod frame;
mod header;
mod id;
mod parameters;
#[cfg(test)]
mod testing;
mod time;
mod varint;
mod version;

pub use alert::alert_name;
pub use code::TransportErrorCode;
pub use configuration::InvalidSetting;
pub use cursor::{Direction, Full, Malformed, Reader, Writer};
pub use custom::{MAX_REGISTERED, RegisterError, Registry};
pub use frame::*;
pub use header::*;
pub use id::*;
pub use parameters::*;
pub use time::Time;
pub use varint::{MAX_VARINT, VarInt, VarIntTooLarge, push_varint, varint_len};
pub use version::{Format, Labels, Version};
