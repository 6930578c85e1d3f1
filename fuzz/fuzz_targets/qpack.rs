//! Feeds QPACK streams and field sections of an arbitrary peer to our encoder or decoder, or connects both
//! with arbitrary delays.
#![no_main]

#[path = "../../crates/http3/tests/harness/qpack.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
