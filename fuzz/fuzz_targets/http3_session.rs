//! Runs an HTTP/3 session over a real connection. The input determines the bytes that the peer writes.
#![no_main]

#[path = "../../crates/http3/tests/harness/session.rs"]
mod harness;
#[path = "../../crates/http3/tests/session/pair.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod pair;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
