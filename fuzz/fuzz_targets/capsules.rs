//! Reads streams of capsules, in pieces of any size, some too long or cut off.
#![no_main]

#[path = "../../crates/http3/tests/harness/capsules.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
