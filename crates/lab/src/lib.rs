//! A deterministic discrete-event network: links made of small elements, hosts that run real endpoints in virtual
//! time, and one seed from which everything random follows.
//!
//! The same links also run in real time as a UDP [`relay`], so that other implementations can be tested over them.
#![forbid(unsafe_code)]

pub mod app;
pub mod events;
pub mod link;
mod log;
pub mod network;
pub mod node;
pub mod packet;
pub mod pair;
pub mod random;
pub mod relay;
pub mod scenario;
pub mod sim;
pub mod tls;
pub mod trace;
