//! Loss recovery and congestion control of one QUIC path.
//!
//! [`Recovery`] holds the state of one path: its round-trip time, the packets sent on it, their loss, the
//! probe timeout, the congestion window and pacing rate, the packet size, and ECN validation (RFC 9002, RFC
//! 9000 §13.4 and §14, RFC 8899). It does not use packet numbers, because several numbering designs share it.
//! A packet is identified by its *order* on the path.
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
