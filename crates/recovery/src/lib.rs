//! Loss recovery and congestion control of one QUIC path.
//!
//! [`Recovery`] knows one path: its round-trip time, the packets sent on it, when they are lost, when to
//! probe, how fast to send, how large packets may be and whether ECN works (RFC 9002, RFC 9000 §13.4 and §14,
//! RFC 8899). It never sees packet numbers of a particular numbering design; packets are known by their
//! *order* on the path.
#![forbid(unsafe_code)]

mod config;
pub mod congestion;
mod ecn;
mod lost;
mod mtu;
mod outcome;
mod pacer;
mod persistent;
mod rate;
mod recovery;
mod reordering;
mod rtt;
mod sent;
mod shared_ecn;
mod timer;

pub use config::{Config, InitialWindow, LossDelay, MtuConfig, PacingBurst, PacingGain, UnknownLossDelay};
pub use congestion::{Algorithm, Congestion, Controller, Sibling, State};
pub use ecn::EcnState;
pub use outcome::{AckError, AckInfo, Expired, Measures, Outcome, Permit, Progress, Stats};
pub use recovery::Recovery;
pub use rtt::Rtt;
pub use sent::{MAX_QUIET_TRACKED, Sent};
pub use shared_ecn::{EcnFinding, SharedEcn};

#[cfg(test)]
mod tests;
