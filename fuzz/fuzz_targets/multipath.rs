//! Runs a connection with several paths, in either numbering, over a network that a script controls.
#![no_main]

#[path = "../../crates/transport/tests/harness/exchange.rs"]
#[allow(dead_code, reason = "other targets use the rest")]
mod exchange;
#[path = "../../crates/transport/tests/harness/multipath.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
