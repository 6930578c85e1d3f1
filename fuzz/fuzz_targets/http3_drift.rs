//! Runs two HTTP/3 sessions whose datagrams are lost, repeated and reordered.
#![no_main]

#[path = "../../crates/http3/tests/harness/drift.rs"]
mod harness;
#[path = "../../crates/http3/tests/session/pair.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod pair;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
