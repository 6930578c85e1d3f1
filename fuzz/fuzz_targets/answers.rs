//! Answers a client with forged Version Negotiation and Retry packets before its server does.
#![no_main]

#[path = "../../crates/transport/tests/harness/answers.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
