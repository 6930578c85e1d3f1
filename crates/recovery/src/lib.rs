//! Loss recovery and congestion control of one QUIC path.
#![forbid(unsafe_code)]
