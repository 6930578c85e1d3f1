//! Parses frames, settings, priorities, capsules, datagrams and field sections, as a whole and in pieces.
//! Encodes the parsed values and parses them again.
#![no_main]

#[path = "../../crates/http3/tests/harness/http3.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
