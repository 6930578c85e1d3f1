//! Parses IP packets, and checks the ICMP messages about them.
#![no_main]

#[path = "../../crates/anabranch/tests/harness/ip_packets.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
