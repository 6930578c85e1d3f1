//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) over the streams of a QUIC connection, without I/O.
#![forbid(unsafe_code)]

pub mod capsule;
mod config;
mod datagram;
mod error;
pub mod frame;
pub mod message;
mod priority;
pub mod qpack;
mod session;
mod settings;
mod stream_type;
pub mod trace;
mod varints;

pub use config::Config;
pub use datagram::{datagram_overhead, decode_datagram, encode_datagram};
pub use error::{Code, Error};
pub use priority::Priority;
pub use session::{Event, ReadError, RequestError, Session, WriteError};
pub use settings::{MAX_SETTINGS, Settings};
pub use stream_type::{StreamType, is_reserved, reserved};
