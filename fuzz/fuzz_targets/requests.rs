//! Parses targets of tunnels, as the client and the proxy do, and access rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch::proxy::fuzzing::requests(data));
