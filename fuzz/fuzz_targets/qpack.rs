//! QPACK: streams and field sections of any peer, and field lines of ours through any delays.
#![no_main]

#[path = "../../crates/http3/tests/harness/qpack.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
