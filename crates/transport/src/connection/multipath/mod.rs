//! Multipath (RFC 10069), where it concerns streams, keys, the handshake or the application. Logic that
//! concerns only paths is in [`crate::path`].

mod abandon;
mod acks;
mod again;
mod alternatives;
mod copies;
mod drive;
mod failure;
mod frames;
mod locate;
mod open;
mod pool;
mod schedule;
mod send;
mod shared_ack;
mod status;
