//! Runs the same script over all versions. Each must deliver the same.
#![no_main]

#[path = "../../crates/transport/tests/harness/exchange.rs"]
#[allow(dead_code, reason = "other targets use the rest")]
mod exchange;
#[path = "../../crates/transport/tests/harness/wires.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
