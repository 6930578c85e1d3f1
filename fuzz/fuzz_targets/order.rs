//! Compares the order of a flow's messages with a model.
#![no_main]

#[path = "../../crates/transport/tests/harness/order.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
