//! TLS 1.3 sessions and packet protection for anabranch.
#![forbid(unsafe_code)]
