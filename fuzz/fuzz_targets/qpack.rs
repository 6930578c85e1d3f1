//! QPACK: streams and field sections from an arbitrary peer, and our own field lines with arbitrary delays.
#![no_main]

#[path = "../../crates/http3/tests/harness/qpack.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
