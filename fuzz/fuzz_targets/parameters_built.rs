//! Encodes arbitrary valid transport parameters and decodes them.
#![no_main]

#[path = "../../crates/wire/tests/harness/parameters_built.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
