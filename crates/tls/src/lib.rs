//! TLS 1.3 sessions and packet protection for anabranch.
//!
//! Two halves that meet in [`Secrets`]: a [`Session`] runs the handshake over rustls and hands out traffic
//! secrets; [`Keys`] are derived from them here, under the labels of the QUIC version in use, and protect
//! packets.
#![forbid(unsafe_code)]

mod chacha;
mod client_hello;
mod header_key;
#[cfg(test)]
mod hex;
mod hkdf;
mod keys;
mod packet_key;
mod retry;
mod session;
mod suite;

pub use client_hello::{ClientHello, HelloOffer, MAX_CLIENT_HELLO_LEN, client_hello_parameters};
pub use header_key::HeaderKey;
pub use keys::{DirectionKeys, EarlySecret, Keys, Secrets, initial_keys};
pub use packet_key::{OpenError, PacketKey, nonce};
pub use retry::retry_tag;
pub use session::{
    ClientConfig, ClientConfigBuilder, ConfigError, KeyChange, MAX_TICKET_KEYS, ServerConfig,
    ServerConfigBuilder, Session, TICKET_KEY_LEN, TicketKeys, TicketKeysError, TlsError, TlsErrorKind,
};
pub use suite::{Suite, TAG_LEN};

/// The TLS library below, for the types that configurations take (certificates, verifiers, key logs).
pub use rustls;
