//! Wire formats of QUIC: variable-length integers, frames, packet headers, versions and transport parameters.
//!
//! The crate holds no connection state and makes no decisions. It parses the bytes of a peer, reports errors
//! with the codes that the RFCs demand, and encodes what the transport sends. Only the module of [`Version`]
//! contains code for particular versions.
//!
//! ```
//! use anabranch_wire::{ConnectionId, Direction, Frame, Frames, Side, TransportParameters, Writer};
//!
//! let mut payload = [0; 64];
//! let mut writer = Writer::new(&mut payload, Direction::Forward);
//! writer.frame(&Frame::Ping).unwrap();
//! writer.frame(&Frame::MaxData(1_000_000)).unwrap();
//! let frames: Result<Vec<_>, _> = Frames::new(writer.written(), Direction::Forward).collect();
//! assert_eq!(frames.unwrap(), [Frame::Ping, Frame::MaxData(1_000_000)]);
//!
//! let mut parameters = TransportParameters::default();
//! parameters.initial_max_data = 65_536;
//! // Required (RFC 9000 §7.3).
//! parameters.initial_source_connection_id = ConnectionId::new(b"a client");
//! let mut bytes = Vec::new();
//! parameters.encode(&mut bytes, None);
//! // The server decodes the parameters of a client.
//! assert_eq!(TransportParameters::decode(Side::Client, &bytes).unwrap(), parameters);
//! ```
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
