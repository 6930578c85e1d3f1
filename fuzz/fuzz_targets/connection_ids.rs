//! Exchanges the connection IDs of a path over a network that loses and reorders frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch_transport::fuzzing::connection_ids(data));
