//! Initials with any token, genuine ones changed among them.
#![no_main]

#[path = "../../crates/transport/tests/harness/tokens.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
