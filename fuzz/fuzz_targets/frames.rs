//! Reads a payload's frames in both directions, writes and reads them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/frames.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
