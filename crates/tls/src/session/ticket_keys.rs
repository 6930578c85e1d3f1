//! Session tickets that several servers can read, and that stay valid when a server restarts (RFC 8446
//! §4.6.1, RFC 5077 §4).

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::crypto::SecureRandom;
use rustls::server::ProducesTickets;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use zeroize::Zeroizing;

use super::default_provider;

/// Length of a ticket key, in bytes.
pub const TICKET_KEY_LEN: usize = 32;
/// Maximum number of ticket keys of a server. A ticket that none of them has sealed is tried with each of
/// them.
pub const MAX_TICKET_KEYS: usize = 8;

/// Maximum age of a ticket.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Length of the salt at the beginning of each ticket, in bytes. Each ticket's AEAD key is derived from its
/// salt, so no two tickets share key and nonce.
const SALT_LEN: usize = 32;
const INFO: &[u8] = b"anabranch session ticket";

/// Keys of stateless session tickets. Servers with the same keys can resume each other's sessions. The first
/// key seals new tickets; all keys open tickets. Keys can therefore be replaced without forcing clients into
/// a full handshake.
///
/// Such a ticket can be used more than once, so a server with ticket keys accepts no early data (RFC 8446
/// §8). Anyone who has a key can read the sessions that it protects. Keep keys secret, and replace them at
/// least every few days.
pub struct TicketKeys {
    keys: Vec<Zeroizing<[u8; TICKET_KEY_LEN]>>,
    random: &'static dyn SecureRandom,
    time: Arc<dyn TimeProvider>,
}

/// Error for too few or too many ticket keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} ticket keys; there have to be 1 to {MAX_TICKET_KEYS}")]
pub struct TicketKeysError(usize);

impl TicketKeys {
    /// Creates ticket keys. The first of `keys` seals tickets, and all of them open tickets. Each key
    /// consists of [`TICKET_KEY_LEN`] random bytes.
    ///
    /// # Errors
    /// Fails if there are no keys, or more than [`MAX_TICKET_KEYS`].
    pub fn new(keys: impl IntoIterator<Item = [u8; TICKET_KEY_LEN]>) -> Result<Arc<Self>, TicketKeysError> {
        Self::with_time(keys, Arc::new(DefaultTimeProvider))
    }

    /// Creates ticket keys with a custom clock, which determines the age of tickets.
    ///
    /// # Errors
    /// Fails like [`Self::new`].
    pub fn with_time(
        keys: impl IntoIterator<Item = [u8; TICKET_KEY_LEN]>,
        time: Arc<dyn TimeProvider>,
    ) -> Result<Arc<Self>, TicketKeysError> {
        let keys: Vec<_> = keys.into_iter().map(Zeroizing::new).collect();
        if keys.is_empty() || keys.len() > MAX_TICKET_KEYS {
            return Err(TicketKeysError(keys.len()));
        }
        Ok(Arc::new(Self { keys, random: default_provider().secure_random, time }))
    }

    fn now(&self) -> Option<u64> {
        self.time.current_time().map(|time| time.as_secs())
    }
}

/// Returns the AEAD key of one ticket.
fn aead(key: &[u8; TICKET_KEY_LEN], salt: &[u8]) -> Option<LessSafeKey> {
    let prk = Salt::new(HKDF_SHA256, salt).extract(key);
    let mut bytes = Zeroizing::new([0; TICKET_KEY_LEN]);
    prk.expand(&[INFO], Length).and_then(|okm| okm.fill(&mut *bytes)).ok()?;
    UnboundKey::new(&AES_256_GCM, &*bytes).map(LessSafeKey::new).ok()
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Length of HKDF's output.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        TICKET_KEY_LEN
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME.as_secs() as u32
    }

    /// Encrypts a session. The ticket consists of the salt, then of the creation time and the session, which
    /// are sealed.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_LEN];
        self.random.fill(&mut salt).ok()?;
        let aead = aead(self.keys.first()?, &salt)?;
        let mut sealed = [&self.now()?.to_be_bytes(), plain].concat();
        aead.seal_in_place_append_tag(nonce(), Aad::from(&salt), &mut sealed).ok()?;
        Some([&salt[..], &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (salt, sealed) = ticket.split_at_checked(SALT_LEN)?;
        let open = |key: &Zeroizing<_>| {
            let mut sealed = sealed.to_vec();
            let len = aead(key, salt)?.open_in_place(nonce(), Aad::from(salt), &mut sealed).ok()?.len();
            sealed.truncate(len);
            Some(sealed)
        };
        let opened = self.keys.iter().find_map(open)?;
        let (made, session) = opened.split_first_chunk()?;
        let age = self.now()?.checked_sub(u64::from_be_bytes(*made))?;
        (age < LIFETIME.as_secs()).then(|| session.to_vec())
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
