//! State that an endpoint's connections share with the endpoint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_wire::{ConnectionId, ResetToken, Time};
use aws_lc_rs::hmac;

use super::address_token::{AddressToken, TokenKey};
use crate::config::EndpointConfig;

/// Maximum memory for incomplete ClientHellos of all clients whose addresses are not validated, in bytes. A
/// client that needs more is refused.
pub const MAX_UNVALIDATED_MEMORY: usize = 8 << 20;

/// Secrets and settings of an endpoint that all its connections share.
#[derive(Debug)]
pub struct Shared {
    cid_len: usize,
    reset_key: hmac::Key,
    token_key: TokenKey,
    /// Memory used by incomplete ClientHellos, in bytes.
    unvalidated: AtomicUsize,
}

impl Shared {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Self {
            cid_len: config.cid_len.min(anabranch_wire::MAX_CID_LEN),
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, &config.reset_key),
            token_key: TokenKey::new(&config.token_key),
            unvalidated: AtomicUsize::new(0),
        }
    }

    /// Returns the length of the endpoint's connection IDs in bytes.
    pub fn cid_len(&self) -> usize {
        self.cid_len
    }

    /// Returns the stateless reset token for one of the endpoint's connection IDs. The same key always yields
    /// the same token (RFC 9000 §10.3.2).
    pub fn reset_token(&self, cid: &ConnectionId) -> ResetToken {
        let tag = hmac::sign(&self.reset_key, cid);
        let mut token = [0; 16];
        token.copy_from_slice(&tag.as_ref()[..16]);
        ResetToken(token)
    }

    /// Returns a token for a NEW_TOKEN frame to the client at `remote` (RFC 9000 §8.1.3). `random` must never
    /// repeat.
    pub fn new_token(&self, now: Time, remote: SocketAddr, random: [u8; 16]) -> Vec<u8> {
        self.token_key.seal(&AddressToken::New { issued: now, ip: remote.ip() }, random)
    }

    pub(super) fn token_key(&self) -> &TokenKey {
        &self.token_key
    }
}

/// Memory of one client's handshake. It counts against [`MAX_UNVALIDATED_MEMORY`] until this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Waiting {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, bytes: 0 }
    }

    /// Records that the client's handshake uses `bytes` bytes of memory. Returns whether the total of all
    /// clients stays within the limit.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let total = &self.shared.unvalidated;
        total.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        total.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_UNVALIDATED_MEMORY
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.unvalidated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
