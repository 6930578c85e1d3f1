//! Compares sets of ranges with sets of values.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch_transport::fuzzing::ranges(data));
