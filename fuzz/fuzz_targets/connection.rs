//! Runs a client and a server whose datagrams a script drops, repeats, reorders and changes.
#![no_main]

#[path = "../../crates/transport/tests/harness/connection.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
