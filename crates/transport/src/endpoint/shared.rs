//! State that an endpoint's connections share with the endpoint.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use anabranch_tls::Keys;
use anabranch_wire::{ConnectionId, ResetToken, Time, Version};
use aws_lc_rs::hmac;

use super::address_token::{self, AddressToken, Lifetimes, Proof, TokenKey, Used};
use super::handle::Handle;
use super::initial_keys::InitialKeys;
use super::keyed::Keyed;
use super::load_balancer::Issuers;
use super::worker::Worker;
use crate::config::{EndpointConfig, ServerConfig};
use crate::random::Random;

/// Maximum memory for incomplete ClientHellos of all clients whose addresses are not validated, in bytes. A
/// client that needs more is refused.
pub const MAX_UNVALIDATED_MEMORY: usize = 8 << 20;

/// Maximum time by which the clock of another server behind the same load balancer may be ahead, so that its tokens are accepted.
pub(super) const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Secrets and settings of an endpoint that all connections of one of its workers share.
#[derive(Debug)]
pub struct Shared {
    cid_len: usize,
    worker: Worker,
    reset_key: hmac::Key,
    token_key: TokenKey,
    pub(super) group: Arc<Group>,
}

/// State of an endpoint that all its workers share, so that its limits hold for all of them together.
#[derive(Debug)]
pub(super) struct Group {
    /// Number of connections.
    pub(super) connections: AtomicUsize,
    /// Number of clients whose handshake has not ended, whether their connection is accepted or not.
    pub(super) waiting: AtomicUsize,
    /// Memory used by incomplete ClientHellos, in bytes.
    unvalidated: AtomicUsize,
    pub(super) initial_keys: InitialKeys,
    /// Tokens of NEW_TOKEN that were used.
    tokens: Mutex<Used>,
    /// Stateless reset tokens of peers, and the workers and connections that they end.
    reset_tokens: Mutex<HashMap<[u8; 16], (usize, Handle), Keyed>>,
    /// Configurations of QUIC-LB. Packets of known connections do not take this lock.
    issuers: RwLock<Issuers>,
}

impl Group {
    pub(super) fn new(hash: Keyed, issuers: Issuers) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            unvalidated: AtomicUsize::new(0),
            initial_keys: InitialKeys::default(),
            tokens: Mutex::new(Used::new(hash)),
            reset_tokens: Mutex::new(HashMap::with_hasher(hash)),
            issuers: RwLock::new(issuers),
        }
    }

    pub(super) fn tokens(&self) -> MutexGuard<'_, Used> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn issuers(&self) -> RwLockReadGuard<'_, Issuers> {
        self.issuers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn issuers_mut(&self) -> RwLockWriteGuard<'_, Issuers> {
        self.issuers.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reset_tokens(&self) -> MutexGuard<'_, HashMap<[u8; 16], (usize, Handle), Keyed>> {
        self.reset_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn new(config: &EndpointConfig, worker: Worker, group: Arc<Group>) -> Self {
        Self {
            cid_len: config.cid_len.min(anabranch_wire::MAX_CID_LEN),
            worker,
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, &config.reset_key),
            token_key: TokenKey::new(&config.token_key, &config.earlier_token_keys),
            group,
        }
    }

    /// Returns the worker to which these connections belong.
    pub fn worker(&self) -> Worker {
        self.worker
    }

    /// Returns the keys of a client's first Initial from its check, unless many other clients came since.
    pub(crate) fn take_initial_keys(&self, version: Version, dcid: &ConnectionId) -> Option<Box<Keys>> {
        self.group.initial_keys.take(version, dcid)
    }

    /// Returns a new connection ID, by which packets reach this server and this worker.
    pub(crate) fn cid(&self, random: &mut Random) -> ConnectionId {
        match self.group.issuers().current() {
            Some(issuer) => issuer.cid(self.worker, random, self.cid_len),
            None => self.worker.cid(random, self.cid_len),
        }
    }

    /// Returns a connection ID of `len` bytes for a Retry, by which the client's next packets reach this server and this worker.
    pub(super) fn retry_cid(&self, random: &mut Random, len: usize) -> ConnectionId {
        match self.group.issuers().current() {
            Some(issuer) => issuer.retry_cid(self.worker, random, len),
            None => self.worker.cid(random, len),
        }
    }

    /// Returns whether load balancers route packets by addresses, because the endpoint has run out of connection IDs that name its
    /// server (draft-ietf-quic-load-balancers-21 §9.6).
    pub(crate) fn is_routed_by_address(&self) -> bool {
        self.group.issuers().remaining() == Some(0)
    }

    /// Lets the endpoint run out of connection IDs that name its server.
    #[cfg(test)]
    pub(crate) fn use_up_cids(&self) {
        self.group.issuers().use_up();
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

    /// Returns what `token`, received in an Initial to `dcid`, proves about the client at `remote`.
    pub(super) fn check_token(
        &self,
        now: Time,
        server: &ServerConfig,
        remote: SocketAddr,
        token: &[u8],
        dcid: &ConnectionId,
    ) -> Proof {
        if token.is_empty() {
            return Proof::Nothing;
        }
        let is_one_of_many = self.group.issuers().current().is_some();
        let skew = if is_one_of_many { MAX_CLOCK_SKEW } else { Duration::ZERO };
        let lifetimes =
            Lifetimes { retry: server.retry_token_lifetime, new: server.new_token_lifetime, skew };
        // The lock is held only to look a token up: strangers can send tokens without end.
        let use_up = |token, issued| self.group.tokens().first(token, issued);
        address_token::check(&self.token_key, now, token, (remote, dcid), lifetimes, use_up)
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
        let total = &self.shared.group.unvalidated;
        total.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        total.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_UNVALIDATED_MEMORY
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.group.unvalidated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
