//! The server's side of configurations: new connection IDs, and nonces that never repeat.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_wire::{ConnectionId, MAX_CID_LEN};

use super::cipher::Cipher;
use super::{CONFIG_SHIFT, LoadBalancing, MAX_BLOCK_LEN, ServerIdDecoder, UNROUTABLE};
use crate::config::EndpointConfig;
use crate::endpoint::worker::Worker;
use crate::random::Random;

/// Issuer of connection IDs with one configuration, for all workers of an endpoint.
#[derive(Debug)]
pub(in crate::endpoint) struct Issuer {
    config: LoadBalancing,
    codec: ServerIdDecoder,
    nonces: Arc<Nonces>,
}

impl Issuer {
    fn new(config: LoadBalancing, nonces: Arc<Nonces>) -> Self {
        let codec = ServerIdDecoder::of_valid(&config);
        Self { config, codec, nonces }
    }

    /// Returns a new connection ID of `len` bytes, by which packets reach this server, and the worker there. Bytes behind the nonce
    /// are random (§5.4). Once the nonces are used up, the connection ID names no server, and packets are routed by addresses (§9.6).
    pub(in crate::endpoint) fn cid(&self, worker: Worker, random: &mut Random, len: usize) -> ConnectionId {
        let nonce = self.nonces.next();
        self.cid_with(nonce, worker, random, len)
    }

    /// Returns a connection ID for a Retry, by which the client's next Initial reaches this server. Its nonce is random and not
    /// counted: anybody can ask for Retries without end.
    pub(in crate::endpoint) fn retry_cid(
        &self,
        worker: Worker,
        random: &mut Random,
        len: usize,
    ) -> ConnectionId {
        let nonce = random.bytes();
        self.cid_with(Some(nonce), worker, random, len)
    }

    fn cid_with(
        &self,
        nonce: Option<[u8; MAX_BLOCK_LEN]>,
        worker: Worker,
        random: &mut Random,
        len: usize,
    ) -> ConnectionId {
        let mut cid: [u8; MAX_CID_LEN] = random.bytes();
        let len = len.min(cid.len());
        let [first, rest @ ..] = &mut cid;
        let server_id_len = self.config.server_id.len();
        let block = rest.get_mut(..self.config.block_len());
        let (config_id, is_routable) = match block.zip(nonce) {
            Some((block, nonce)) => {
                let (server_id, place) = block.split_at_mut(server_id_len);
                server_id.copy_from_slice(&self.config.server_id);
                place.copy_from_slice(&nonce[..place.len()]);
                self.codec.encrypt(block);
                (self.config.config_id, true)
            }
            None => (UNROUTABLE, false),
        };
        // Connection IDs that name no server contain their length (§3.2). Several workers need the bits for their numbers.
        let has_length = self.config.encodes_length || !is_routable && worker.count() == 1;
        let low = if has_length { len.saturating_sub(1) as u8 } else { worker.name(*first) };
        *first = config_id << CONFIG_SHIFT | low;
        ConnectionId::new(&cid[..len]).unwrap_or(ConnectionId::EMPTY)
    }

    /// Returns the number of connection IDs that can still be issued.
    fn remaining(&self) -> u64 {
        self.nonces.remaining()
    }

    /// Returns whether nonces of `config` are encrypted together with those of this configuration, so that they must differ.
    fn shares_nonces_with(&self, config: &LoadBalancing) -> bool {
        let this = &self.config;
        (this.key, this.server_id, this.nonce_len) == (config.key, config.server_id, config.nonce_len)
    }
}

/// Nonces of a configuration: consecutive numbers from a random one on (§9.6). All workers draw from them. Without a key, a key of
/// this process makes consecutive nonces look unrelated (§5.4), and still no two are equal.
#[derive(Debug)]
struct Nonces {
    start: [u8; MAX_BLOCK_LEN],
    len: usize,
    used: AtomicU64,
    disguise: Option<Cipher>,
}

impl Nonces {
    fn new(config: &LoadBalancing, has_key: bool, random: &mut Random) -> Self {
        let len = config.nonce_len.min(MAX_BLOCK_LEN);
        let start = random.bytes();
        let disguise = (!has_key).then(|| Cipher::four_pass(&random.bytes()));
        Self { start, len, used: AtomicU64::new(0), disguise }
    }

    /// Returns the number of nonces. More than 2^64 are never needed.
    fn total(&self) -> u64 {
        u32::try_from(8 * self.len).ok().and_then(|bits| 1_u64.checked_shl(bits)).unwrap_or(u64::MAX)
    }

    fn remaining(&self) -> u64 {
        self.total() - self.used.load(Ordering::Relaxed)
    }

    /// Returns the next nonce, in as many bytes of the array as it has; `None` once all are used up.
    fn next(&self) -> Option<[u8; MAX_BLOCK_LEN]> {
        let step = |used| (used < self.total()).then(|| used + 1);
        let count = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()?;
        let mut nonce = self.start;
        // The last eight bytes count: a carry beyond them would take 2^64 nonces.
        let counting = &mut nonce[self.len.saturating_sub(8)..self.len];
        let mut number = [0; 8];
        let at = number.len() - counting.len();
        number[at..].copy_from_slice(counting);
        let number = u64::from_be_bytes(number).wrapping_add(count).to_be_bytes();
        counting.copy_from_slice(&number[at..]);
        if let Some(cipher) = &self.disguise {
            cipher.encrypt(&mut nonce[..self.len]);
        }
        Some(nonce)
    }
}

/// Configurations of an endpoint: the one by which it issues connection IDs, and earlier ones, whose connection IDs are in use.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Issuers {
    current: Option<Arc<Issuer>>,
    /// Earlier configurations, one for each number at most, and none with the number of the current one.
    earlier: Vec<Arc<Issuer>>,
    /// All configurations since the start whose nonces must differ. Only the operator adds to them.
    used: Vec<Arc<Issuer>>,
}

impl Issuers {
    /// Creates the issuers of an endpoint.
    pub(in crate::endpoint) fn of(config: &EndpointConfig, random: &mut Random) -> Self {
        let mut issuers = Self::default();
        if let Some(balancing) = config.load_balancing() {
            issuers.set(balancing.clone(), random);
        }
        issuers
    }

    /// Returns the issuer of new connection IDs; `None` if they name no server.
    pub(in crate::endpoint) fn current(&self) -> Option<&Arc<Issuer>> {
        self.current.as_ref()
    }

    /// Issues connection IDs with another configuration from now on. Nonces that were used with the same key are not used again.
    pub(in crate::endpoint) fn set(&mut self, config: LoadBalancing, random: &mut Random) {
        let known = self.used.iter().find(|known| known.shares_nonces_with(&config));
        let nonces = known.map(|known| Arc::clone(&known.nonces));
        let is_new = nonces.is_none();
        let nonces = nonces.unwrap_or_else(|| Arc::new(Nonces::new(&config, config.key.is_some(), random)));
        let current = Arc::new(Issuer::new(config, nonces));
        if is_new {
            self.used.push(Arc::clone(&current));
        }
        self.earlier.extend(self.current.replace(Arc::clone(&current)));
        // A configuration whose number the current one has can no longer be decoded: it would take connection IDs of other servers
        // for its own. Of two earlier ones with a number, the newer one counts.
        let ids: Vec<_> = self.earlier.iter().map(|known| known.codec.config_id()).collect();
        let mut at = 0;
        self.earlier.retain(|known| {
            at += 1;
            let id = known.codec.config_id();
            id != current.codec.config_id() && !ids[at..].contains(&id)
        });
    }

    /// Returns the number of connection IDs that can still be issued; `None` without a configuration.
    pub(in crate::endpoint) fn remaining(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.remaining())
    }

    /// Lets the current configuration run out of nonces.
    #[cfg(test)]
    pub(in crate::endpoint) fn use_up(&self) {
        let nonces = self.current.as_ref().map(|current| &current.nonces);
        nonces.into_iter().for_each(|nonces| nonces.used.store(nonces.total(), Ordering::Relaxed));
    }

    /// Returns whether a packet to this unknown connection ID may be answered by a stateless reset: this server has issued it, or
    /// there are no other servers, or the configuration allows it. A server that answered misrouted packets of another one would
    /// end its connections (§9.5).
    pub(in crate::endpoint) fn may_reset(&self, cid: &[u8]) -> bool {
        let Some(current) = &self.current else { return true };
        let is_own = |issuer: &Issuer| issuer.codec.server_id(cid) == Some(issuer.config.server_id);
        current.config.resets_for_others
            || is_own(current)
            || self.earlier.iter().any(|issuer| is_own(issuer))
    }
}

#[cfg(test)]
mod tests;
