//! Writes arbitrary frames of all types in both directions and reads them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/frames_built.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
