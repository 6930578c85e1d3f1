//! `anabranch vpn` end to end, in network namespaces of the test: a client with two links, a proxy, and a host behind it.
//! Without the rights to make namespaces, the tests are skipped by name.
#![cfg(all(feature = "vpn", target_os = "linux"))]
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod carried;
mod moved;
mod refused;
mod reload;
mod restored;
mod spaces;
