//! TLS whose every random choice is derived from a seed, for simulations and tests. It provides no security.
//!
//! With the same seed, certificate and clock, two runs exchange the same bytes: randoms, key shares (X25519),
//! tickets and signatures (Ed25519, which has no randomness).
//!
//! This crate is separate, so that no program that uses a network can include it. The library and its users
//! do not depend on it, whatever else is built with them; `cargo xtask tidy` checks this.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch_wire::Time;
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, PeerMisbehaved, RootCertStore};

thread_local! {
    static GENERATOR: RefCell<Option<ChaCha20Rng>> = const { RefCell::new(None) };
}

/// Seeds the randomness of all deterministic TLS on this thread. Requests for randomness fail before the
/// first call.
pub fn seed_thread(seed: u64) {
    GENERATOR.with_borrow_mut(|generator| *generator = Some(ChaCha20Rng::seed_from_u64(seed)));
}

fn fill(buf: &mut [u8]) -> Result<(), GetRandomFailed> {
    GENERATOR.with_borrow_mut(|generator| {
        generator.as_mut().ok_or(GetRandomFailed)?.fill_bytes(buf);
        Ok(())
    })
}

/// Returns a provider that uses the random number generator of the current thread; see [`seed_thread`].
///
/// X25519 is the only key exchange, and TLS_AES_128_GCM_SHA256 is the preferred suite, so that flights always
/// have the same size.
pub fn deterministic_provider() -> Arc<CryptoProvider> {
    use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![&DeterministicX25519],
        secure_random: &ThreadRandom,
        ..default_provider()
    })
}

#[derive(Debug)]
struct ThreadRandom;

impl SecureRandom for ThreadRandom {
    fn fill(&self, buf: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(buf)
    }
}

#[derive(Debug)]
struct DeterministicX25519;

impl SupportedKxGroup for DeterministicX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut scalar = [0; 32];
        fill(&mut scalar)?;
        let private =
            PrivateKey::from_private_key(&agreement::X25519, &scalar).map_err(|_| GetRandomFailed)?;
        let public = private.compute_public_key().map_err(|_| GetRandomFailed)?.as_ref().to_vec();
        Ok(Box::new(KeyExchange { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct KeyExchange {
    private: PrivateKey,
    public: Vec<u8>,
}

impl ActiveKeyExchange for KeyExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let invalid = || Error::from(PeerMisbehaved::InvalidKeyShare);
        if peer.len() != 32 {
            return Err(invalid());
        }
        let peer = UnparsedPublicKey::new(&agreement::X25519, peer);
        agreement::agree(&self.private, peer, invalid(), |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// UNIX time, in seconds, of the lab's epoch [`Time::ZERO`]: 2023-11-14 22:13:20 UTC, within the
/// certificates' validity.
const EPOCH_UNIX_SECONDS: u64 = 1_700_000_000;

/// A clock that returns the time to which it was last set.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// Creates a clock that is set to the lab's epoch.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Sets the clock to `now`.
    pub fn set(&self, now: Time) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl TimeProvider for VirtualClock {
    fn current_time(&self) -> Option<UnixTime> {
        let since_epoch = Duration::from_nanos(self.0.load(Ordering::Relaxed));
        Some(UnixTime::since_unix_epoch(Duration::from_secs(EPOCH_UNIX_SECONDS) + since_epoch))
    }
}

/// A self-signed Ed25519 certificate with its key.
///
/// ```
/// use anabranch_seeded::Identity;
///
/// let identity = Identity::new(7, &["server.test"])?;
/// assert_eq!(identity.certificate, Identity::new(7, &["server.test"])?.certificate);
/// assert_ne!(identity.certificate, Identity::new(8, &["server.test"])?.certificate);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Identity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Returns the identity for the host names `names` that is derived from `seed`. The same arguments give
    /// the same identity.
    ///
    /// # Errors
    /// Fails if one of the names is invalid.
    pub fn new(seed: u64, names: &[&str]) -> Result<Self, rcgen::Error> {
        // RFC 8410 §7: PrivateKeyInfo of version 0 with the 32-byte key in an OCTET STRING inside an OCTET
        // STRING
        let mut pkcs8 = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let mut key = [0; 32];
        ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut key);
        pkcs8.extend_from_slice(&key);
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8);
        let certificate = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519).and_then(|pair| {
            let mut params =
                CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or("anabranch"));
            params.self_signed(&pair)
        })?;
        Ok(Self { certificate: certificate.der().clone(), key: pkcs8.into() })
    }

    /// Returns a root store that trusts this certificate.
    ///
    /// # Errors
    /// Fails if the certificate cannot be parsed, which would be a fault of this crate.
    pub fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_a_seed_fails() {
        let unseeded = std::thread::spawn(|| fill(&mut [0; 8]).is_err());
        assert!(unseeded.join().unwrap());
    }

    #[test]
    fn identities_depend_on_the_seed_alone() {
        let identity = |seed| Identity::new(seed, &["a.test", "b.test"]).unwrap();
        assert_eq!(identity(1).certificate, identity(1).certificate);
        assert_ne!(identity(1).certificate, identity(2).certificate);
        assert_eq!(identity(1).certificate.len(), identity(2).certificate.len());
    }

    #[test]
    fn the_clock_shows_what_it_was_set_to() {
        let clock = VirtualClock::new();
        let start = clock.current_time().map(|now| now.as_secs());
        clock.set(Time::from_millis(90_000));
        assert_eq!(clock.current_time().map(|now| now.as_secs()), start.map(|start| start + 90));
    }
}
