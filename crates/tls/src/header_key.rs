//! Header protection masks (RFC 9001 §5.4).

use core::fmt;

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use zeroize::Zeroizing;

use crate::Suite;
use crate::chacha;
use crate::hkdf::Secret;

/// Header protection key of one direction and one encryption level. A key update does not change it.
pub struct HeaderKey(Cipher);

#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost a cache miss per packet; connections hold few keys"
)]
enum Cipher {
    Aes(EncryptingKey),
    ChaCha20(Zeroizing<[u8; 32]>),
}

impl HeaderKey {
    #[expect(clippy::expect_used, reason = "the key has the length that the cipher asks for")]
    pub(crate) fn derive(suite: Suite, secret: &Secret, label: &str) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        secret.expand_label(suite, label, &mut key[..suite.key_len()]);
        let algorithm = match suite {
            Suite::Aes128Gcm => &AES_128,
            Suite::Aes256Gcm => &AES_256,
            Suite::ChaCha20Poly1305 => return Self(Cipher::ChaCha20(key)),
        };
        let key = UnboundCipherKey::new(algorithm, &key[..suite.key_len()]);
        Self(Cipher::Aes(key.and_then(EncryptingKey::ecb).expect("a key of the cipher's length")))
    }

    /// Returns the mask for a packet with this `sample` of its ciphertext.
    ///
    /// RFC 9001 uses the first five bytes of the mask. Another version may use up to all sixteen.
    #[inline]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 16] {
        let mut mask = [*sample];
        self.masks(&mut mask);
        mask[0]
    }

    /// Replaces a batch of samples by their masks. With AES, this takes a third of the time of single calls.
    #[expect(clippy::expect_used, reason = "whole blocks cannot fail")]
    pub fn masks(&self, samples: &mut [[u8; 16]]) {
        match &self.0 {
            // RFC 9001 §5.4.3: AES-ECB(hp_key, sample)
            Cipher::Aes(key) => {
                let blocks = samples.as_flattened_mut();
                key.less_safe_encrypt(blocks, EncryptionContext::None).expect("whole blocks");
            }
            // RFC 9001 §5.4.4
            Cipher::ChaCha20(key) => {
                for sample in samples {
                    *sample = chacha::keystream(key, sample);
                }
            }
        }
    }
}

/// Formats the name of the cipher, never the key.
impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Cipher::Aes(_) => "HeaderKey(Aes)",
            Cipher::ChaCha20(_) => "HeaderKey(ChaCha20)",
        })
    }
}
