//! The sans-IO QUIC core.
#![forbid(unsafe_code)]
