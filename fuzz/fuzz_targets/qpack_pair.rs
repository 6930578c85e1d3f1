//! Connects a QPACK encoder to a decoder, and lets sections wait, arrive late or be cancelled.
#![no_main]

#[path = "../../crates/http3/tests/harness/qpack_pair.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
