//! Splits an arbitrary datagram into packets and removes their header protection.
#![no_main]

#[path = "../../crates/wire/tests/harness/headers.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
