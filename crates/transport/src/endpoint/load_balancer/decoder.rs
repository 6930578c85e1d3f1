//! The load balancer's side of a configuration.

use anabranch_wire::{InvalidSetting, MAX_CID_LEN};

use super::cipher::Cipher;
use super::{CONFIG_SHIFT, LoadBalancing, MAX_BLOCK_LEN, ServerId};

/// Decoder of the server IDs in connection IDs, for a load balancer (draft-ietf-quic-load-balancers-21 §5.5).
#[derive(Debug)]
pub struct ServerIdDecoder {
    config_id: u8,
    server_id_len: usize,
    block_len: usize,
    cipher: Option<Cipher>,
}

impl ServerIdDecoder {
    /// Creates the decoder of connection IDs that servers issue with this configuration: all of those whose server ID has the same
    /// length, the one of `config` among them.
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft.
    pub fn new(config: &LoadBalancing) -> Result<Self, InvalidSetting> {
        config.validate()?;
        Ok(Self::of_valid(config))
    }

    pub(super) fn of_valid(config: &LoadBalancing) -> Self {
        let block_len = config.block_len().min(MAX_BLOCK_LEN);
        Self {
            config_id: config.config_id,
            server_id_len: config.server_id.len(),
            block_len,
            cipher: config.key.as_ref().map(|key| Cipher::new(key, block_len)),
        }
    }

    /// Returns the number of the configuration.
    pub fn config_id(&self) -> u8 {
        self.config_id
    }

    /// Returns the length of the shortest connection IDs that can be decoded, in bytes.
    pub fn cid_len(&self) -> usize {
        1 + self.block_len
    }

    /// Returns the server ID in the connection ID; `None` if it has the number of another configuration or is too short. A client's
    /// first packets have connection IDs of its own choice, so that any server ID may come out, and any bytes may follow the
    /// connection ID: a short header does not contain its length.
    pub fn server_id(&self, cid: &[u8]) -> Option<ServerId> {
        let mut block = [0; MAX_CID_LEN];
        let block = self.decrypt(cid, &mut block, self.server_id_len)?;
        ServerId::new(block.get(..self.server_id_len)?)
    }

    /// Decrypts a connection ID into `block`, whose first `wanted` bytes are needed.
    fn decrypt<'b>(&self, cid: &[u8], block: &'b mut [u8; MAX_CID_LEN], wanted: usize) -> Option<&'b [u8]> {
        let (first, rest) = cid.split_first()?;
        if first >> CONFIG_SHIFT != self.config_id {
            return None;
        }
        let block = block.get_mut(..self.block_len)?;
        block.copy_from_slice(rest.get(..self.block_len)?);
        if let Some(cipher) = &self.cipher {
            cipher.decrypt(block, wanted);
        }
        Some(block)
    }

    /// Returns the server ID and the nonce in a connection ID of this configuration.
    #[cfg(test)]
    pub(super) fn block(&self, cid: &[u8]) -> Option<Vec<u8>> {
        let mut block = [0; MAX_CID_LEN];
        self.decrypt(cid, &mut block, self.block_len).map(<[u8]>::to_vec)
    }

    /// Encrypts a server ID and a nonce.
    pub(super) fn encrypt(&self, block: &mut [u8]) {
        if let Some(cipher) = &self.cipher {
            cipher.encrypt(block);
        }
    }
}
