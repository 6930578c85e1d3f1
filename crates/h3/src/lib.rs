#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod connection;
#[cfg(feature = "datagram")]
pub mod datagram;
mod error;
mod recv_stream;
mod send_stream;

pub use anabranch;

pub use crate::connection::{BidiStream, Connection, OpenStreams};
pub use crate::recv_stream::RecvStream;
pub use crate::send_stream::SendStream;
