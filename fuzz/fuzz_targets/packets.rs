//! Writes headers of all versions, protects them and reads them again.
#![no_main]

#[path = "../../crates/wire/tests/harness/packets.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
