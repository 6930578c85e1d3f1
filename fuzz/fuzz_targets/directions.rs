//! Parses the same fields in version 1's order and in VReverso's. Both orders must give the same frames, or
//! the same error.
#![no_main]

#[path = "../../crates/wire/tests/harness/directions.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
