//! Parses lab plans.
#![no_main]

#[path = "../../crates/lab/tests/harness/plans.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
