//! Parses the capsules of CONNECT-IP, and encodes them again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch::proxy::fuzzing::ip_capsules(data));
