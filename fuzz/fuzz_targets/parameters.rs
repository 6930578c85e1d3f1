//! Decodes transport parameters of either endpoint, encodes them and decodes them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/parameters.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
