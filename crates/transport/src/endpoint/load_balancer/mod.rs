//! Connection IDs that name the server, by which load balancers route packets without a table of connections (QUIC-LB,
//! draft-ietf-quic-load-balancers-21).

mod cipher;
mod decoder;
mod issuer;
mod server_id;

use anabranch_wire::{InvalidSetting, MAX_CID_LEN};

pub use self::decoder::ServerIdDecoder;
pub(super) use self::issuer::Issuers;
pub use self::server_id::{MAX_SERVER_ID_LEN, ServerId};

/// Minimum length of a nonce, in bytes (draft-ietf-quic-load-balancers-21 §5.3).
const MIN_NONCE_LEN: usize = 4;
/// Maximum length of server ID and nonce together, in bytes: all of a connection ID but its first byte (§5.3).
const MAX_BLOCK_LEN: usize = MAX_CID_LEN - 1;
/// Number in the upper three bits of connection IDs that name no server (§3.2). A configuration has a smaller one.
const UNROUTABLE: u8 = 7;
/// Bits of the first byte above which the configuration's number begins (§3.4).
const CONFIG_SHIFT: u32 = 5;

/// Configuration of QUIC-LB (draft-ietf-quic-load-balancers-21): all connection IDs of an endpoint name its server, so that a load
/// balancer with the same configuration routes each packet to this server, whatever its address, without a table of connections.
///
/// ```
/// use anabranch_transport::{EndpointConfig, LoadBalancing, ServerId, ServerIdDecoder};
///
/// let server = ServerId::new(&[0x17]).unwrap();
/// let balancing = LoadBalancing::new(0, server, 6).with_key([7; 16]);
/// balancing.validate()?;
/// // The load balancer has the same number, lengths and key.
/// let decoder = ServerIdDecoder::new(&balancing)?;
/// assert_eq!(decoder.server_id(&[0xe0; 8]), None);
/// let config = EndpointConfig::new([1; 32]).with_load_balancing(balancing);
/// # let _ = config;
/// # Ok::<_, anabranch_transport::wire::InvalidSetting>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LoadBalancing {
    config_id: u8,
    server_id: ServerId,
    nonce_len: usize,
    key: Option<[u8; 16]>,
    encodes_length: bool,
    resets_for_others: bool,
}

impl LoadBalancing {
    /// Creates the configuration with the number `config_id`, 0 to 6 (§3.1), by which the server with the ID `server_id` issues
    /// connection IDs. Each has a nonce of `nonce_len` bytes, 4 at least, which never repeats. The server ID, the nonce and one byte
    /// fit into 20 bytes (§5.3). With 4 bytes, a server runs out of nonces after 2^32 connection IDs; with 8 or more, never.
    pub const fn new(config_id: u8, server_id: ServerId, nonce_len: usize) -> Self {
        Self { config_id, server_id, nonce_len, key: None, encodes_length: false, resets_for_others: false }
    }

    /// Sets the key that hides the server from observers (AES-128, §5.4). Without it, everybody can read which server a connection
    /// ID names, and so link the addresses of a client (§9).
    #[must_use]
    pub const fn with_key(mut self, key: [u8; 16]) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets whether the first byte contains the length of the connection ID, for hardware that needs it (§3.3). The workers of an
    /// endpoint are named by the same bits, so that only one is then possible.
    #[must_use]
    pub const fn with_encoded_length(mut self, encoded: bool) -> Self {
        self.encodes_length = encoded;
        self
    }

    /// Sets whether the endpoint sends stateless resets for connection IDs of other servers, or of none, too. Only load balancers
    /// that never lead packets of a living server to another one make this safe: servers with a common reset key could otherwise
    /// end each other's connections (§9.5, RFC 9000 §21.11). Clients of a server that has died then learn so at once.
    #[must_use]
    pub const fn with_resets_for_others(mut self, resets: bool) -> Self {
        self.resets_for_others = resets;
        self
    }

    /// Returns the number of the configuration, which is in the upper three bits of connection IDs.
    pub const fn config_id(&self) -> u8 {
        self.config_id
    }

    /// Returns the ID of the server.
    pub const fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// Returns whether the first byte contains the length of the connection ID.
    pub const fn encodes_length(&self) -> bool {
        self.encodes_length
    }

    /// Returns the length of the shortest possible connection IDs, in bytes.
    pub const fn cid_len(&self) -> usize {
        1 + self.block_len()
    }

    /// Returns the length of server ID and nonce together, in bytes.
    const fn block_len(&self) -> usize {
        self.server_id.len().saturating_add(self.nonce_len)
    }

    /// Checks that connection IDs can be issued with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        unless(self.config_id < UNROUTABLE, "config_id", "must be 0 to 6")?;
        unless(self.nonce_len >= MIN_NONCE_LEN, "nonce_len", "must be at least 4 bytes")?;
        let fits = self.nonce_len <= MAX_BLOCK_LEN && self.block_len() <= MAX_BLOCK_LEN;
        unless(fits, "nonce_len", "must be 19 bytes at most together with the server ID")
    }

    /// Checks that an endpoint with this number of workers and this length of connection IDs can use the settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft, the length or the number of workers.
    pub(crate) fn validate_for(&self, cid_len: usize, workers: usize) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        self.validate()?;
        unless(
            self.cid_len() <= cid_len,
            "cid_len",
            "must have room for the server ID, the nonce and a byte",
        )?;
        let is_free = workers == 1 || !self.encodes_length;
        unless(
            is_free,
            "encoded_length",
            "must be off with several workers, whose numbers are in the same bits",
        )
    }
}

/// Prints the configuration without its key.
impl std::fmt::Debug for LoadBalancing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadBalancing")
            .field("config_id", &self.config_id)
            .field("server_id", &self.server_id)
            .field("nonce_len", &self.nonce_len)
            .field("has_key", &self.key.is_some())
            .field("encodes_length", &self.encodes_length)
            .field("resets_for_others", &self.resets_for_others)
            .finish()
    }
}

#[cfg(test)]
mod tests;
