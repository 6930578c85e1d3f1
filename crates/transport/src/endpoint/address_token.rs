//! Address validation tokens, those of Retry packets and of NEW_TOKEN frames (RFC 9000 §8.1).
//!
//! A token is 16 random bytes and a sealed statement. Each is sealed under a key of its own, derived from the
//! endpoint's token key and the random bytes, so that no number of Retry packets wears a key out. Issue times
//! are in the driver's
//! [`Time`]: for tokens that outlive a restart, the driver's epoch has to be the same afterwards (the Unix epoch, say).
//! If it is not, tokens look expired or not yet issued, and are ignored.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_wire::{ConnectionId, Direction, Reader, Time};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;

use super::keyed::Keyed;

/// Longest token that is looked at; none of ours is longer.
pub(super) const MAX_TOKEN_LEN: usize = 128;

/// NEW_TOKEN tokens remembered as used, in each of two generations.
pub(super) const MAX_USED_TOKENS: usize = 16_384;

const RANDOM_LEN: usize = 16;
const KIND_RETRY: u8 = 1;
const KIND_NEW: u8 = 2;

/// Statement that a token carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressToken {
    /// The client at this address answered our Retry.
    Retry { issued: Time, remote: SocketAddr, original_dcid: ConnectionId, retry_scid: ConnectionId },
    /// A client at this IP address completed a handshake once. Its port may be another by now.
    New { issued: Time, ip: IpAddr },
}

/// Identifies a token among those that an endpoint issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; RANDOM_LEN]);

/// The secret that tokens are sealed with.
#[derive(Debug)]
pub(super) struct TokenKey(hmac::Key);

impl TokenKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Derives key and nonce of the token with these random bytes.
    #[expect(clippy::expect_used, reason = "key and nonce are cut to their lengths from 32 bytes")]
    fn derive(&self, random: &[u8; RANDOM_LEN]) -> (LessSafeKey, Nonce) {
        let derived = hmac::sign(&self.0, random);
        let (key, rest) = derived.as_ref().split_at(16);
        let key = UnboundKey::new(&AES_128_GCM, key).expect("16 bytes");
        (LessSafeKey::new(key), Nonce::try_assume_unique_for_key(&rest[..12]).expect("12 bytes"))
    }

    /// Seals a token. The same `random` must not be used twice.
    #[expect(clippy::expect_used, reason = "the AEAD refuses only payloads of gigabytes")]
    pub(super) fn seal(&self, token: &AddressToken, random: [u8; RANDOM_LEN]) -> Vec<u8> {
        let (key, nonce) = self.derive(&random);
        let mut out = token.encode();
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut out).expect("a token is short");
        out.splice(0..0, random);
        out
    }

    /// Opens `token` and returns its statement; `None` unless it was sealed with this key.
    pub(super) fn open(&self, token: &[u8]) -> Option<(AddressToken, Fingerprint)> {
        if token.len() > MAX_TOKEN_LEN {
            return None;
        }
        let (random, sealed) = token.split_first_chunk()?;
        let (key, nonce) = self.derive(random);
        let mut sealed = sealed.to_vec();
        let statement = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        Some((AddressToken::decode(statement)?, Fingerprint(*random)))
    }
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

/// Returns an address in 16 bytes, with IPv4 as an IPv4-mapped IPv6 address.
fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Facts that a client's token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing: there is no token, or it is not ours, or it does not count any longer.
    Nothing,
    /// The client may be believed to be at its address.
    Address,
    /// The client is at its address and answers our Retry to its Initial with this Destination Connection ID.
    Retried(ConnectionId),
    /// It is a token of our Retry packets and wrong: the connection is to be refused with INVALID_TOKEN (RFC
    /// 9000 §8.1.2), since the client will not follow another Retry.
    Wrong,
}

/// Check of tokens, which remembers the used ones.
#[derive(Debug)]
pub(super) struct Checker {
    used: Used,
}

impl Checker {
    pub(super) fn new(hash: Keyed) -> Self {
        Self { used: Used::new(hash) }
    }

    /// Returns the facts about the client at `remote` that `token`, from an Initial to `dcid`, proves.
    pub(super) fn check(
        &mut self,
        key: &TokenKey,
        now: Time,
        token: &[u8],
        remote: SocketAddr,
        dcid: &ConnectionId,
        lifetimes: Lifetimes,
    ) -> Proof {
        let ip = remote.ip().to_canonical();
        let fresh = |issued: Time, lifetime| issued <= now && now.saturating_since(issued) <= lifetime;
        match key.open(token) {
            None => Proof::Nothing,
            Some((AddressToken::Retry { issued, remote: to, original_dcid, retry_scid }, _)) => {
                let right = fresh(issued, lifetimes.retry)
                    && to == SocketAddr::new(ip, remote.port())
                    && retry_scid == *dcid;
                if right { Proof::Retried(original_dcid) } else { Proof::Wrong }
            }
            Some((AddressToken::New { issued, ip: to }, fingerprint)) => {
                let right = fresh(issued, lifetimes.new) && to == ip && self.used.first(fingerprint, issued);
                if right { Proof::Address } else { Proof::Nothing }
            }
        }
    }
}

/// Times for which tokens are valid after they were issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetimes {
    pub(super) retry: Duration,
    pub(super) new: Duration,
}

/// NEW_TOKEN tokens that were used (RFC 9000 §8.1.4: each counts once).
///
/// Memory is bounded by forgetting the older of two generations. Whatever may have been forgotten is not
/// accepted again: no token issued up to the newest forgotten one counts any longer.
#[derive(Debug)]
struct Used {
    young: Generation,
    old: Generation,
    forgotten: Option<Time>,
}

#[derive(Debug)]
struct Generation {
    tokens: HashSet<Fingerprint, Keyed>,
    /// Issue time of the newest one.
    newest: Option<Time>,
}

impl Used {
    fn new(hash: Keyed) -> Self {
        let generation = || Generation { tokens: HashSet::with_hasher(hash), newest: None };
        Self { young: generation(), old: generation(), forgotten: None }
    }

    /// Marks the token as used and returns whether it was not used before.
    fn first(&mut self, token: Fingerprint, issued: Time) -> bool {
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
