//! One connection: datagrams to packets to frames to their owners, and back.

mod ack_budget;
mod ack_frequency;
mod acked;
mod after_end;
mod close;
#[expect(clippy::module_inception, reason = "the module of the connection holds the type Connection")]
mod connection;
mod crypto_stream;
mod frames;
mod handshake;
mod info;
mod keys;
mod long;
mod migration;
mod multipath;
mod named;
mod negotiation;
mod packet;
mod parameters;
mod paths;
mod place;
mod prepare;
mod receive;
mod roaming;
mod rotate;
mod run;
mod short;
mod timers;
mod transmit;

pub use self::connection::{ConnectError, Connection};
pub use self::info::{ConnectionStats, PathInfo};
#[cfg(test)]
pub(crate) use self::{
    ack_budget::MAX_PROMPT_ACKS, frames::MAX_NEW_TOKENS, packet::forge::Forged,
    receive::MAX_UNDECRYPTED_UNVALIDATED, roaming::MAX_RESCUES, run::SETTLED, transmit::MAX_NUDGES,
};
