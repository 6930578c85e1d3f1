//! Reads and writes variable-length integers in both directions, and compares them with their definition.
#![no_main]

#[path = "../../crates/wire/tests/harness/varints.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
