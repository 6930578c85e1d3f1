//! Components of a connection. A component depends only on components that it contains.

mod ack_budget;
mod ack_request;
mod acks;
mod closing;
mod crypto_stream;
mod dealt;
mod handshake;
mod idle;
mod keys;
mod origin;
mod output;
mod pending;
mod remembered;
mod rest;
mod roaming;
mod undecrypted;

pub(crate) use self::ack_budget::AckBudget;
pub(crate) use self::ack_request::AckRequest;
pub(crate) use self::acks::{ACK_DELAY_EXPONENT, Acks};
pub(crate) use self::closing::{CloseFrame, Closing, State};
pub(crate) use self::crypto_stream::{CryptoStream, MAX_UNVALIDATED_CRYPTO};
pub(crate) use self::dealt::{Dealt, Lane, MASKED_AT_ONCE};
pub(crate) use self::handshake::{ClientStart, HELLO_STEP, Handshake, Level, Levels};
pub(crate) use self::idle::Idle;
pub(crate) use self::keys::{KeyRing, OneRtt, Phase};
pub(crate) use self::origin::Origin;
pub(crate) use self::output::Output;
pub(crate) use self::pending::Pending;
pub(crate) use self::remembered::Remembered;
pub(crate) use self::rest::Rest;
pub(crate) use self::roaming::Roaming;
pub(crate) use self::undecrypted::{Kept, Undecrypted};
#[cfg(test)]
pub(crate) use self::{ack_budget::MAX_PROMPT_ACKS, undecrypted::MAX_UNDECRYPTED_UNVALIDATED};
