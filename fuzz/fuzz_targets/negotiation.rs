//! Writes Version Negotiation and Retry packets and reads them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/negotiation.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
