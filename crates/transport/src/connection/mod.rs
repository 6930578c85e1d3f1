//! One connection: it splits datagrams into packets and frames, passes frames to their owners, and builds
//! packets.

mod ack_frequency;
mod acked;
mod close;
#[expect(clippy::module_inception, reason = "the module of the connection holds the type Connection")]
mod connection;
mod handshake;
mod info;
mod migration;
mod multipath;
mod negotiation;
mod parameters;
mod parts;
mod paths;
mod receive;
mod rest;
mod roaming;
mod rotate;
mod send;
mod timers;

pub use self::connection::{ConnectError, ConnectTarget, Connection};
pub use self::info::ConnectionStats;
#[cfg(test)]
pub(crate) use self::{
    parts::{MAX_PROMPT_ACKS, MAX_UNDECRYPTED_UNVALIDATED},
    receive::{GUESSES, IN_TRAINS, MAX_NEW_TOKENS},
    roaming::MAX_RESCUES,
    send::{Forged, IN_RUNS, MAX_NUDGES},
};
