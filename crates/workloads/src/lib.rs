//! Work of the stack without sockets and threads, the same in each run: `anabranch-bench` times it, and `cargo xtask counts` counts its
//! instructions.

pub mod counting;
mod end;
pub mod handshakes;
pub mod keep_alive;
pub mod memory;
pub mod pages;
pub mod receive;
pub mod registry;
pub mod requests;
pub mod send;
pub mod transfer;

/// Error message for the user of a benchmark.
pub type Error = Box<dyn std::error::Error>;

/// UDP payload of every packet of a bulk stream, in bytes.
pub const PACKET_LEN: u16 = 1350;
