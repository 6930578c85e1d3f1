//! TLS 1.3 sessions and packet protection for anabranch.
//!
//! A [`Session`] runs the handshake with rustls and returns traffic secrets ([`Secrets`]). [`Keys`] are
//! derived from the secrets with the labels of the QUIC version in use, and protect packets.
//!
//! ```
//! use anabranch_seeded::Identity;
//! use anabranch_tls::rustls::RootCertStore;
//! use anabranch_tls::{ClientConfig, ServerConfig, Session, TicketKeys};
//!
//! let identity = Identity::new(1, &["server.test"])?;
//! let mut roots = RootCertStore::empty();
//! roots.add(identity.certificate.clone())?;
//! let client = ClientConfig::builder().roots(roots).alpn(["example"]).build()?;
//! // Servers with the same keys resume each other's sessions. Real keys are random and secret.
//! let server = ServerConfig::builder()
//!     .certificate(vec![identity.certificate], identity.key)
//!     .alpn(["example"])
//!     .ticketer(TicketKeys::new([[7; 32]])?)
//!     .build()?;
//!
//! let mut client = Session::client(&client, "server.test", b"client's transport parameters".to_vec())?;
//! let mut server = Session::server(&server, b"server's transport parameters".to_vec())?;
//! let mut hello = Vec::new();
//! client.write(&mut hello);
//! server.read(&hello)?;
//! // The server's handshake continues in packets that are protected with the returned keys.
//! assert!(server.write(&mut Vec::new()).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub use packet_key::{OpenError, PacketKey, PacketMaterial, nonce};
pub use retry::retry_tag;
pub use session::{
    ClientConfig, ClientConfigBuilder, ConfigError, KeyChange, MAX_TICKET_KEYS, ServerConfig,
    ServerConfigBuilder, Session, TICKET_KEY_LEN, TicketKeys, TicketKeysError, TlsError, TlsErrorKind,
};
pub use suite::{Suite, TAG_LEN};

/// Underlying TLS library, for the types in configurations (certificates, verifiers, key logs).
pub use rustls;
