//! Runs a connection on one path whose datagrams arrive late, reordered, changed or cut, in batches.
#![no_main]

#[path = "../../crates/transport/tests/harness/exchange.rs"]
#[allow(dead_code, reason = "other targets use the rest")]
mod exchange;
#[path = "../../crates/transport/tests/harness/batches.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
