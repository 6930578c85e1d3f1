//! Runs a connection over VReverso whose packets are decrypted into the receive buffer.
#![no_main]

#[path = "../../crates/transport/tests/harness/exchange.rs"]
#[allow(dead_code, reason = "other targets use the rest")]
mod exchange;
#[path = "../../crates/transport/tests/harness/placement.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
