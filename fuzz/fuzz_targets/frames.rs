//! Parses a payload's frames in both directions, encodes them and parses them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/frames.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
