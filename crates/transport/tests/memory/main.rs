//! Limits of the memory that peers can make an endpoint allocate, as counted by the allocator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod acknowledgments;
mod counting;
mod ends;
mod handshakes;
mod idle;
mod receiving;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
