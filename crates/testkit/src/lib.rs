//! Helpers that the tests of several crates share. Only tests depend on this crate.
//!
//! A crate's unit tests cannot use helpers that depend on that crate, since its types would then exist twice.
//! Such helpers stay with the tests.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "corpus")]
pub mod corpus;
#[cfg(feature = "endpoints")]
pub mod endpoints;
#[cfg(feature = "packets")]
pub mod packets;
#[cfg(feature = "seeded")]
pub mod seeded;
#[cfg(feature = "corpus")]
pub mod source;

/// Environment variable with the share of an attack of docs/threats.md that runs, in percent.
const SHARE: &str = "ANABRANCH_ATTACKS";

/// Returns the number of packets, frames or peers of an attack that has `full` of them. A tenth of them runs, or the share that
/// `ANABRANCH_ATTACKS` names in percent.
pub fn share_of(full: u64) -> u64 {
    let percent = std::env::var(SHARE)
        .map_or(10, |percent| percent.parse().expect("ANABRANCH_ATTACKS is a percentage"));
    (full * percent / 100).max(1)
}

/// Returns the byte at offset `at` of every [`pattern`].
pub fn byte_at(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Returns `len` bytes that vary with their offset.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(byte_at).collect()
}
