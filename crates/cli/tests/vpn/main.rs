//! Tests of `anabranch vpn` end to end, in network namespaces: a client with two links, a proxy, and a target behind it. Without
//! the right to create network namespaces, the tests print that they are skipped.
#![cfg(all(feature = "vpn", target_os = "linux"))]
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod carried;
mod moved;
mod refused;
mod reload;
mod restored;
mod spaces;
