//! Writes traces of arbitrary events, and checks that they are JSON within their limit.
#![no_main]

#[path = "../../crates/qlog/tests/harness/traces.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
