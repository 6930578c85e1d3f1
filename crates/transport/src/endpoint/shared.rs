//! What an endpoint's connections share with it.

use std::net::SocketAddr;

use anabranch_wire::{ConnectionId, ResetToken, Time};
use aws_lc_rs::hmac;

use super::address_token::{AddressToken, TokenKey};
use crate::config::EndpointConfig;

/// Secrets and settings that an endpoint gives to each of its connections.
#[derive(Debug)]
pub struct Shared {
    cid_len: usize,
    reset_key: hmac::Key,
    token_key: TokenKey,
}

impl Shared {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Self {
            cid_len: config.cid_len.min(anabranch_wire::MAX_CID_LEN),
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, &config.reset_key),
            token_key: TokenKey::new(&config.token_key),
        }
    }

    /// Length of the endpoint's connection IDs in bytes.
    pub fn cid_len(&self) -> usize {
        self.cid_len
    }

    /// The stateless reset token that belongs to one of the endpoint's connection IDs, the same whenever and wherever it
    /// is computed under the same key (RFC 9000 §10.3.2).
    pub fn reset_token(&self, cid: &ConnectionId) -> ResetToken {
        let tag = hmac::sign(&self.reset_key, cid);
        let mut token = [0; 16];
        token.copy_from_slice(&tag.as_ref()[..16]);
        ResetToken(token)
    }

    /// What a NEW_TOKEN frame for the client at `remote` carries (RFC 9000 §8.1.3). `random` must never repeat.
    pub fn new_token(&self, now: Time, remote: SocketAddr, random: [u8; 16]) -> Vec<u8> {
        self.token_key.seal(&AddressToken::New { issued: now, ip: remote.ip() }, random)
    }

    pub(super) fn token_key(&self) -> &TokenKey {
        &self.token_key
    }
}
