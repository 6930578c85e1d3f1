//! Loss recovery and congestion control of one QUIC path.
//!
//! [`Recovery`] holds the state of one path: its round-trip time, the packets sent on it, their loss, the
//! probe timeout, the congestion window and pacing rate, the packet size, and ECN validation (RFC 9002, RFC
//! 9000 §13.4 and §14, RFC 8899). It does not use packet numbers, because several numbering designs share it.
//! A packet is identified by its *order* on the path.
//!
//! ```
//! use anabranch_recovery::{AckInfo, Config, Measures, Outcome, Recovery, Sent};
//! use anabranch_wire::{SpaceId, Time};
//!
//! let mut path = Recovery::new(&Config::default(), Time::ZERO);
//! for (order, frames) in (0..).zip(["headers", "first part", "second part", "end"]) {
//!     let time = Time::from_millis(order);
//!     let (size, ect, mtu_probe) = (1200, false, false);
//!     let sent = Sent { time, size, ack_eliciting: true, in_flight: true, ect, mtu_probe, owed: frames };
//!     path.on_sent(SpaceId::Data, order, sent);
//! }
//! assert_eq!(path.bytes_in_flight(), 4 * 1200);
//!
//! // The peer acknowledges all packets but the first, which is lost: three later ones have arrived.
//! let mut outcome = Outcome::new();
//! let ack = AckInfo { measures: Measures::Largest, ..AckInfo::default() };
//! path.on_ack(Time::from_millis(40), SpaceId::Data, [1..=3].into_iter(), ack, &[], &mut outcome)?;
//! assert_eq!(outcome.acked.len(), 3);
//! let (_, lost) = &outcome.lost[0];
//! assert_eq!(lost.owed, "headers");
//! assert_eq!(path.rtt().latest().as_millis(), 37);
//! # Ok::<(), anabranch_recovery::AckError>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
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
pub use recovery::{QueueLimit, Recovery};
pub use rtt::Rtt;
pub use sent::{MAX_QUIET_TRACKED, Sent};
pub use shared_ecn::{EcnFinding, SharedEcn};

#[cfg(test)]
mod tests;
