//! Verification of secrets.
//!
//! Argon2 costs memory and time, so it runs on few threads, once for each right secret, and rarely for networks that send
//! wrong ones. Right secrets are remembered by hashes with a key that exists only in this process.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::Argon2;
use argon2::password_hash::{PasswordHashString, PasswordVerifier};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use http::HeaderMap;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::failures::Failures;
use super::secret::Shown;
use super::{User, Users};
use crate::lock::lock;
use crate::proxy::server::refusal::{Cause, Refusal};
use crate::proxy::server::target::Carried;
use crate::sync::Mutex;

/// Maximum number of secrets that are hashed by argon2 at the same time. Each takes 19 MiB with the default parameters.
const MAX_HASHING: usize = 2;
/// Maximum number of requests whose secrets are hashed or wait for it.
const MAX_WAITING: usize = 256;
/// Maximum number of right secrets that are remembered. The oldest one is removed to add another.
const MAX_REMEMBERED: usize = 4_096;

/// Length of a keyed hash, in bytes.
const TAG: usize = 32;

/// Hash that no secret has. It is verified for users that do not exist, so that the response takes as long as for others.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$YW5hYnJhbmNoLW5vYm9keQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Verifier of secrets, with the right secrets so far and the failures of each network.
#[derive(Debug)]
pub(in crate::proxy::server) struct Verifier {
    key: hmac::Key,
    remembered: Arc<Mutex<Remembered>>,
    failures: Arc<Mutex<Failures>>,
    hashing: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Keyed hashes of right secrets, in the order in which they were verified.
#[derive(Debug, Default)]
struct Remembered {
    tags: HashSet<[u8; TAG]>,
    order: VecDeque<[u8; TAG]>,
}

impl Remembered {
    fn insert(&mut self, tag: [u8; TAG]) {
        if !self.tags.insert(tag) {
            return;
        }
        self.order.push_back(tag);
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.tags.remove(&oldest);
        }
    }
}

impl Verifier {
    /// Creates a verifier with a random key.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub(in crate::proxy::server) fn new() -> std::io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Self {
            key: key.map_err(|_| std::io::Error::other("the system has no randomness"))?,
            remembered: Arc::default(),
            failures: Arc::default(),
            hashing: Arc::new(Semaphore::new(MAX_HASHING)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Returns the user whose credentials the request has.
    ///
    /// # Errors
    /// Fails if there are no credentials, if they are wrong, if too many wrong ones came from the client's network, or if too
    /// many requests wait for the verification.
    pub(in crate::proxy::server) async fn verify<'u>(
        &self,
        users: &'u Users,
        fields: &HeaderMap,
        carried: Carried,
        client: IpAddr,
    ) -> Result<&'u User, Refusal> {
        let unknown = || Refusal::new(Cause::Unauthenticated, "the credentials are missing or wrong");
        let shown = Shown::of(fields, carried).filter(Shown::is_plausible).ok_or_else(unknown)?;
        if users.is_empty() {
            // No secret is right, so none is hashed.
            return Err(unknown());
        }
        // A user without a secret is treated like one who does not exist.
        let user = users.get(&shown.name).filter(|user| user.hash.is_some());
        let tag = user.map(|user| self.tag(user, &shown.secret));
        if let Some(tag) = &tag
            && lock(&self.remembered).tags.contains(tag)
        {
            return user.ok_or_else(unknown);
        }
        let _waiting = self.enter()?;
        // The semaphore is never closed.
        let permit = Arc::clone(&self.hashing).acquire_owned().await.map_err(|_| unknown())?;
        // Another request with the same secret may have been verified meanwhile.
        if let Some(tag) = &tag
            && lock(&self.remembered).tags.contains(tag)
        {
            return user.ok_or_else(unknown);
        }
        if !lock(&self.failures).begin(client, Instant::now()) {
            return Err(Refusal::new(Cause::TooManySecrets, "too many wrong credentials"));
        }
        let hash = user.and_then(|user| user.hash.clone());
        let secret = shown.secret;
        let (failures, remembered) = (Arc::clone(&self.failures), Arc::clone(&self.remembered));
        // The thread also records the outcome, because the request may be cancelled meanwhile.
        let verified = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let is_right = matches(hash, &secret);
            if is_right {
                lock(&failures).succeed(client);
                tag.into_iter().for_each(|tag| lock(&remembered).insert(tag));
            }
            is_right
        });
        if !verified.await.unwrap_or(false) {
            return Err(unknown());
        }
        user.ok_or_else(unknown)
    }

    /// Returns the keyed hash of a user's name, argon2 hash and secret. Because it depends on the argon2 hash, a remembered
    /// secret is no longer accepted once the user's hash is replaced.
    fn tag(&self, user: &User, secret: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.key);
        let hash = user.hash.as_ref().map_or("", |hash| hash.as_str());
        for part in [user.name.as_bytes(), hash.as_bytes(), secret] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; TAG];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    /// Waits until no secret is hashed.
    #[cfg(test)]
    pub(super) async fn hashed(&self) {
        let _ = self.hashing.acquire_many(MAX_HASHING as u32).await;
    }

    fn enter(&self) -> Result<Waiting<'_>, Refusal> {
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            return Err(Refusal::new(Cause::Overloaded, "too many clients authenticate at once"));
        }
        Ok(waiting)
    }
}

/// Count of a request whose secret is hashed or waits for it, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether `secret` has this hash, which is compared in constant time. Without a hash, computes another one, so that
/// the call takes as long, and returns `false`.
fn matches(hash: Option<PasswordHashString>, secret: &[u8]) -> bool {
    let exists = hash.is_some();
    let Some(hash) = hash.or_else(|| PasswordHashString::new(NOBODY).ok()) else { return false };
    Argon2::default().verify_password(secret, &hash.password_hash()).is_ok() && exists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_remembered_secrets_are_remembered() {
        let mut remembered = Remembered::default();
        for n in 0..MAX_REMEMBERED as u64 + 100 {
            let mut tag = [0; TAG];
            tag[..8].copy_from_slice(&n.to_be_bytes());
            remembered.insert(tag);
            remembered.insert(tag);
        }
        assert_eq!((remembered.tags.len(), remembered.order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
        assert!(!remembered.tags.contains(&[0; TAG]), "the oldest");
    }

    #[test]
    fn max_waiting_requests_wait_and_max_hashing_are_hashed() {
        let verifier = Verifier::new().unwrap();
        assert_eq!(verifier.hashing.available_permits(), MAX_HASHING);
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| verifier.enter().unwrap()).collect();
        assert_eq!(verifier.enter().err().unwrap().cause(), Cause::Overloaded);
        assert_eq!(verifier.enter().err().unwrap().cause(), Cause::Overloaded, "a refusal takes no place");
        drop(waiting);
        assert!(verifier.enter().is_ok());
    }

    #[test]
    fn users_that_do_not_exist_take_as_long() {
        assert!(PasswordHashString::new(NOBODY).is_ok());
        assert!(!matches(None, b"tea"));
    }
}
