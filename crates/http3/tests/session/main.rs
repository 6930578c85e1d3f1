//! Tests of sessions over real connections: two sessions, or one and a peer that violates the protocol.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod arbitrary;
mod attacks;
mod blocked;
mod by_hand;
mod exchange;
mod messages;
mod oracle;
mod pair;
mod rules;
