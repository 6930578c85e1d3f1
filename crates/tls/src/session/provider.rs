//! Cryptography of the handshake, without the keys that rustls would make for packets.
//!
//! rustls derives packet and header protection keys beside the secrets, with the labels of one QUIC version. They are not used:
//! [`Secrets::keys`](crate::Secrets::keys) derives the keys of the version that was negotiated. The suites here therefore skip that
//! derivation, and their keys protect nothing.

use std::sync::{Arc, LazyLock, OnceLock};

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::crypto::{ActiveKeyExchange, CipherSuiteCommon, CryptoProvider, hmac};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuite, Error, SupportedCipherSuite, Tls13CipherSuite};

use crate::Suite;

/// Labels of the keys that rustls derives for packets (RFC 9001 §5.1).
const PACKET_LABELS: [&[u8]; 3] = [b"quic key", b"quic iv", b"quic hp"];
/// Index of the label among the parts of HkdfLabel that rustls passes (RFC 8446 §7.1): after the length of the output, that of
/// the label, and the prefix `tls13 `.
const LABEL: usize = 3;

/// Cipher suites of [`default_provider`].
static SUITES: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let mut suites = rustls::crypto::aws_lc_rs::default_provider().cipher_suites;
    // The sort is stable, so the others keep their order.
    suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    suites.into_iter().map(without_packet_keys).collect()
});

/// Returns the rustls provider with AES-128-GCM as the preferred cipher suite. AES-128-GCM costs less for
/// each byte than AES-256-GCM, and SHA-256 costs less for each handshake than SHA-384. The suite is as strong
/// as the X25519 key exchange.
pub(super) fn default_provider() -> Arc<CryptoProvider> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Arc::new(CryptoProvider { cipher_suites: SUITES.clone(), ..provider })
}

/// Returns a TLS 1.3 suite whose packet keys cost nothing, and any other suite as it is.
fn without_packet_keys(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let Some(inner) = suite.tls13() else { return suite };
    // rustls wants suites that live as long as the program; there are a few, made once.
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..inner.common },
        hkdf_provider: Box::leak(Box::new(Secrets(inner.hkdf_provider))),
        aead_alg: inner.aead_alg,
        quic: Some(&Unused),
    })))
}

/// HKDF that derives everything but packet keys.
struct Secrets(&'static dyn Hkdf);

impl Hkdf for Secrets {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.0.extract_from_zero_ikm(salt)
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        self.0.extract_from_secret(salt, secret)
    }

    fn extract_from_kx_shared_secret(
        &self,
        salt: Option<&[u8]>,
        exchange: Box<dyn ActiveKeyExchange>,
        peer_key: &[u8],
    ) -> Result<Box<dyn HkdfExpander>, Error> {
        self.0.extract_from_kx_shared_secret(salt, exchange, peer_key)
    }

    fn expander_for_okm(&self, secret: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Expander { hkdf: self.0, secret: secret.clone(), inner: OnceLock::new() })
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> hmac::Tag {
        self.0.hmac_sign(key, message)
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

/// Expander that prepares the secret for its first use.
struct Expander {
    hkdf: &'static dyn Hkdf,
    secret: OkmBlock,
    inner: OnceLock<Box<dyn HkdfExpander>>,
}

impl Expander {
    fn inner(&self) -> &dyn HkdfExpander {
        self.inner.get_or_init(|| self.hkdf.expander_for_okm(&self.secret)).as_ref()
    }
}

impl HkdfExpander for Expander {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        match info.get(LABEL) {
            // Nobody uses the key.
            Some(label) if PACKET_LABELS.contains(label) => Ok(()),
            _ => self.inner().expand_slice(info, output),
        }
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        self.inner().expand_block(info)
    }

    fn hash_len(&self) -> usize {
        self.inner().hash_len()
    }
}

/// Packet protection that protects nothing: every use fails.
struct Unused;

impl Algorithm for Unused {
    fn packet_key(&self, _: AeadKey, _: Iv) -> Box<dyn PacketKey> {
        Box::new(Self)
    }

    fn header_protection_key(&self, _: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(Self)
    }

    fn aead_key_len(&self) -> usize {
        Suite::Aes128Gcm.key_len()
    }
}

impl PacketKey for Unused {
    fn encrypt_in_place(&self, _: u64, _: &[u8], _: &mut [u8]) -> Result<Tag, Error> {
        Err(Error::EncryptError)
    }

    fn decrypt_in_place<'a>(&self, _: u64, _: &[u8], _: &'a mut [u8]) -> Result<&'a [u8], Error> {
        Err(Error::DecryptError)
    }

    fn tag_len(&self) -> usize {
        crate::TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        0
    }

    fn integrity_limit(&self) -> u64 {
        0
    }
}

impl HeaderProtectionKey for Unused {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::EncryptError)
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::DecryptError)
    }

    fn sample_len(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_derive_what_those_of_rustls_derive_but_for_packet_keys() {
        let theirs = rustls::crypto::aws_lc_rs::default_provider();
        let ours = default_provider();
        assert_eq!(ours.cipher_suites.len(), theirs.cipher_suites.len());
        assert_eq!(ours.cipher_suites[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        for suite in theirs.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13) {
            let same = |ours: &&SupportedCipherSuite| ours.suite() == suite.common.suite;
            let ours = ours.cipher_suites.iter().find(same).and_then(SupportedCipherSuite::tls13).unwrap();
            let secret = OkmBlock::new(&[7; 32]);
            let [one, other] = [suite, ours].map(|suite| suite.hkdf_provider.expander_for_okm(&secret));
            assert_eq!(one.hash_len(), other.hash_len());
            let expand = |expander: &dyn HkdfExpander, label: &[u8]| {
                let mut out = [0; 16];
                expander.expand_slice(&[&[0, 16], &[15], b"tls13 ", label, &[0], &[]], &mut out).unwrap();
                out
            };
            for label in [b"finished", b"key", b"quic ku"] as [&[u8]; 3] {
                assert_eq!(expand(one.as_ref(), label), expand(other.as_ref(), label));
                assert_ne!(expand(other.as_ref(), label), [0; 16]);
            }
            for label in PACKET_LABELS {
                assert_ne!(expand(one.as_ref(), label), [0; 16]);
                assert_eq!(expand(other.as_ref(), label), [0; 16]);
            }
        }
    }
}
