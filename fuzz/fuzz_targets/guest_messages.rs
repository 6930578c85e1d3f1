//! Decodes messages of the guest protocol, and encodes them again.
#![no_main]

#[path = "../../crates/guest/tests/harness/messages.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
