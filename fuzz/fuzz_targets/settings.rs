//! Encodes settings and HTTP datagrams, and decodes them.
#![no_main]

#[path = "../../crates/http3/tests/harness/settings.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
