//! Address validation tokens of Retry packets and NEW_TOKEN frames (RFC 9000 §8.1).
//!
//! A token consists of 16 random bytes and a sealed statement. Each token has its own key, derived from the
//! endpoint's token key and the random bytes, so any number of tokens may be issued without exceeding the
//! usage limit of a key. Issue times are in the driver's [`Time`]. If tokens are to outlive a restart, the
//! driver's epoch must be the same afterwards, for instance the Unix epoch. Otherwise tokens appear expired
//! or not yet issued, and are not accepted.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_wire::{ConnectionId, Direction, Reader, Time};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;

use super::keyed::Keyed;

/// Maximum length of a token that is checked, in bytes; none of ours is longer.
pub(super) const MAX_TOKEN_LEN: usize = 128;

/// Maximum number of used NEW_TOKEN tokens that are remembered, in each of two generations.
pub(super) const MAX_USED_TOKENS: usize = 16_384;

const RANDOM_LEN: usize = 16;
const KIND_RETRY: u8 = 1;
const KIND_NEW: u8 = 2;

/// Statement that a token carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressToken {
    /// The client at this address was sent a Retry.
    Retry { issued: Time, remote: SocketAddr, original_dcid: ConnectionId, retry_scid: ConnectionId },
    /// A client at this IP address once completed a handshake. Its port may have changed.
    New { issued: Time, ip: IpAddr },
}

/// Fingerprint that distinguishes the tokens that an endpoint has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; RANDOM_LEN]);

/// Secrets from which the keys of tokens are derived: the one that seals, and earlier ones, whose tokens are still accepted.
#[derive(Debug)]
pub(super) struct TokenKey {
    sealing: hmac::Key,
    earlier: Vec<hmac::Key>,
}

impl TokenKey {
    pub(super) fn new(sealing: &[u8; 32], earlier: &[[u8; 32]]) -> Self {
        let key = |key: &[u8; 32]| hmac::Key::new(hmac::HMAC_SHA256, key);
        Self { sealing: key(sealing), earlier: earlier.iter().map(key).collect() }
    }

    /// Seals a token. The same `random` must not be used twice.
    #[expect(clippy::expect_used, reason = "the AEAD refuses only payloads of gigabytes")]
    pub(super) fn seal(&self, token: &AddressToken, random: [u8; RANDOM_LEN]) -> Vec<u8> {
        let (key, nonce) = derive(&self.sealing, &random);
        let mut out = token.encode();
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut out).expect("a token is short");
        out.splice(0..0, random);
        out
    }

    /// Opens `token` and returns its statement; `None` if it was not sealed with one of these keys.
    pub(super) fn open(&self, token: &[u8]) -> Option<(AddressToken, Fingerprint)> {
        if token.len() > MAX_TOKEN_LEN {
            return None;
        }
        let (random, sealed) = token.split_first_chunk()?;
        std::iter::once(&self.sealing).chain(&self.earlier).find_map(|secret| {
            let (key, nonce) = derive(secret, random);
            let mut sealed = sealed.to_vec();
            let statement = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
            Some((AddressToken::decode(statement)?, Fingerprint(*random)))
        })
    }
}

/// Derives the key and the nonce of the token with these random bytes.
#[expect(clippy::expect_used, reason = "key and nonce are cut to their lengths from 32 bytes")]
fn derive(secret: &hmac::Key, random: &[u8; RANDOM_LEN]) -> (LessSafeKey, Nonce) {
    let derived = hmac::sign(secret, random);
    let (key, rest) = derived.as_ref().split_at(16);
    let key = UnboundKey::new(&AES_128_GCM, key).expect("16 bytes");
    (LessSafeKey::new(key), Nonce::try_assume_unique_for_key(&rest[..12]).expect("12 bytes"))
}

impl AddressToken {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_TOKEN_LEN);
        match self {
            Self::Retry { issued, remote, original_dcid, retry_scid } => {
                out.push(KIND_RETRY);
                out.extend_from_slice(&issued.as_nanos().to_be_bytes());
                out.extend_from_slice(&ip_bytes(remote.ip()));
                out.extend_from_slice(&remote.port().to_be_bytes());
                for cid in [original_dcid, retry_scid] {
                    out.extend(u8::try_from(cid.len()));
                    out.extend_from_slice(cid);
                }
            }
            Self::New { issued, ip } => {
                out.push(KIND_NEW);
                out.extend_from_slice(&issued.as_nanos().to_be_bytes());
                out.extend_from_slice(&ip_bytes(*ip));
            }
        }
        out
    }

    fn decode(statement: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(statement, Direction::Forward);
        let kind = reader.u8().ok()?;
        let issued = Time::from_nanos(reader.u64().ok()?);
        let ip = IpAddr::from(reader.array::<16>().ok()?).to_canonical();
        if kind == KIND_NEW {
            return Some(Self::New { issued, ip });
        }
        let remote = SocketAddr::new(ip, reader.u16().ok()?);
        let mut cid = || {
            let len = reader.u8().ok()?;
            ConnectionId::new(reader.bytes(len.into()).ok()?)
        };
        let (original_dcid, retry_scid) = (cid()?, cid()?);
        (kind == KIND_RETRY).then_some(Self::Retry { issued, remote, original_dcid, retry_scid })
    }
}

/// Returns an address as 16 bytes. An IPv4 address becomes an IPv4-mapped IPv6 address.
fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Facts that a client's token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// No proof: the token is missing, not ours, issued to another address, expired or already used.
    Nothing,
    /// The client's address is validated.
    Address,
    /// The client's address is validated, and it has followed our Retry. Its first Initial had this
    /// Destination Connection ID.
    Retried(ConnectionId),
    /// The token is from one of our Retry packets but invalid. The connection must be refused with
    /// INVALID_TOKEN (RFC 9000 §8.1.2), because the client will not follow another Retry.
    Wrong,
}

/// Returns the facts that `token`, received in an Initial to `dcid`, proves about the client at `remote`. `use_up` marks a valid
/// token of NEW_TOKEN, by its fingerprint and its time of issue, as used, and returns whether it was unused.
pub(super) fn check(
    key: &TokenKey,
    now: Time,
    token: &[u8],
    (remote, dcid): (SocketAddr, &ConnectionId),
    lifetimes: Lifetimes,
    use_up: impl FnOnce(Fingerprint, Time) -> bool,
) -> Proof {
    let ip = remote.ip().to_canonical();
    let fresh =
        |issued: Time, lifetime| issued <= now + lifetimes.skew && now.saturating_since(issued) <= lifetime;
    match key.open(token) {
        None => Proof::Nothing,
        Some((AddressToken::Retry { issued, remote: to, original_dcid, retry_scid }, _)) => {
            let right = fresh(issued, lifetimes.retry)
                && to == SocketAddr::new(ip, remote.port())
                && retry_scid == *dcid;
            if right { Proof::Retried(original_dcid) } else { Proof::Wrong }
        }
        Some((AddressToken::New { issued, ip: to }, fingerprint)) => {
            let right = fresh(issued, lifetimes.new) && to == ip && use_up(fingerprint, issued);
            if right { Proof::Address } else { Proof::Nothing }
        }
    }
}

/// Lifetimes of tokens, from their issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetimes {
    pub(super) retry: Duration,
    pub(super) new: Duration,
    /// Maximum time by which the clock of another server that issues tokens may be ahead.
    pub(super) skew: Duration,
}

/// NEW_TOKEN tokens that were used. Each is accepted once (RFC 9000 §8.1.4).
///
/// Memory is bounded by discarding the older of two generations. A discarded token must not be accepted
/// again, so tokens issued no later than the newest discarded one are rejected.
#[derive(Debug)]
pub(super) struct Used {
    young: Generation,
    old: Generation,
    forgotten: Option<Time>,
}

#[derive(Debug)]
struct Generation {
    tokens: HashSet<Fingerprint, Keyed>,
    /// Issue time of the newest token.
    newest: Option<Time>,
}

impl Used {
    pub(super) fn new(hash: Keyed) -> Self {
        let generation = || Generation { tokens: HashSet::with_hasher(hash), newest: None };
        Self { young: generation(), old: generation(), forgotten: None }
    }

    /// Marks the token as used. Returns `false` if it was used before, or may have been.
    pub(super) fn first(&mut self, token: Fingerprint, issued: Time) -> bool {
        if Some(issued) <= self.forgotten
            || self.old.tokens.contains(&token)
            || !self.young.tokens.insert(token)
        {
            return false;
        }
        self.young.newest = self.young.newest.max(Some(issued));
        if self.young.tokens.len() >= MAX_USED_TOKENS {
            self.forgotten = self.forgotten.max(self.old.newest);
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.tokens.clear();
            self.young.newest = None;
        }
        true
    }
}

#[cfg(test)]
mod tests;
