//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) over a transport connection, without I/O.
#![forbid(unsafe_code)]

mod config;
mod error;
pub mod qpack;

pub use config::Config;
pub use error::{Code, Error};
