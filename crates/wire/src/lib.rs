//! What the bytes of QUIC mean.
#![forbid(unsafe_code)]

mod id;
mod time;

pub use id::*;
pub use time::Time;
