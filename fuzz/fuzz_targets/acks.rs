//! Writes ACK frames of arbitrary packet numbers into arbitrary room, and compares them with a set.
#![no_main]

#[path = "../../crates/wire/tests/harness/acks.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
