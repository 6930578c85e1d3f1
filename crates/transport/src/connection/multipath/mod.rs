//! Several paths at once (RFC 10069), as far as they concern streams, keys, the handshake or the application.
//! Whatever paths alone decide is in [`crate::path`].

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
