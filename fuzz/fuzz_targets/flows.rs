//! Reads the terms of UDP flows, and compares the numbers of payloads with a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch::proxy::fuzzing::flows(data));
