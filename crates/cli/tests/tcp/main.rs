//! The TCP of `anabranch vpn` by itself: bytes across a change of its buffers, and memory.
#![cfg(all(feature = "vpn", target_os = "linux"))]
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../transport/tests/memory/counting.rs"]
mod counting;
mod stack;
#[path = "../../src/tun/packet.rs"]
#[allow(dead_code, reason = "the device uses the rest")]
mod tun;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
