//! Passes Initial packets with arbitrary tokens, including modified genuine ones, to a server's router.
#![no_main]

#[path = "../../crates/transport/tests/harness/tokens.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
