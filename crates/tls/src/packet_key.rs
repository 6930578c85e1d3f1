//! Packet protection with an AEAD (RFC 9001 §5.3), on any path (RFC 10069).

use core::fmt;

use anabranch_wire::PathId;
use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::hkdf::Secret;
use crate::{Suite, TAG_LEN};

/// Key that protects packets of one direction, one encryption level and one key phase.
///
/// The caller must never seal two packets with the same packet number on the same path.
pub struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    suite: Suite,
}

/// Error for a packet that fails authentication: it is damaged, forged, or sealed with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet failed authentication")]
pub struct OpenError;

/// Key bytes and IV from which a [`PacketKey`] is made (RFC 9001 §5.1), without the AEAD's tables, which are ten times as large. The
/// key bytes are erased when they are dropped.
pub struct PacketMaterial {
    suite: Suite,
    key: Zeroizing<[u8; 32]>,
    iv: [u8; NONCE_LEN],
}

impl PacketMaterial {
    /// Derives key and IV from a traffic secret (RFC 9001 §5.1).
    pub(crate) fn derive(suite: Suite, secret: &Secret, key_label: &str, iv_label: &str) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        let mut iv = [0; NONCE_LEN];
        secret.expand_label(suite, key_label, &mut key[..suite.key_len()]);
        secret.expand_label(suite, iv_label, &mut iv);
        Self { suite, key, iv }
    }

    /// Makes the key.
    pub fn key(&self) -> PacketKey {
        PacketKey::new(self.suite, &self.key[..self.suite.key_len()], self.iv)
    }
}

/// Formats the cipher suite, never the key.
impl fmt::Debug for PacketMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacketMaterial").field(&self.suite).finish()
    }
}

impl PacketKey {
    #[expect(clippy::expect_used, reason = "the key has the length that the suite asks for")]
    pub(crate) fn new(suite: Suite, key: &[u8], iv: [u8; NONCE_LEN]) -> Self {
        let key = UnboundKey::new(suite.aead(), key).expect("a key of the suite's length");
        Self { key: LessSafeKey::new(key), iv, suite }
    }

    /// Returns the cipher suite, which determines the usage limits.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Seals a packet in place. `packet` consists of the header, the plaintext and [`TAG_LEN`] bytes for the
    /// tag.
    ///
    /// # Panics
    /// Panics if `packet` is shorter than its header and the tag.
    #[expect(clippy::expect_used, reason = "the AEAD refuses only payloads of gigabytes")]
    pub fn seal(&self, path: PathId, pn: u64, header_len: usize, packet: &mut [u8]) {
        let (header, payload) = packet.split_at_mut(header_len);
        let (plaintext, tag) = payload.split_at_mut(payload.len() - TAG_LEN);
        let sealed =
            self.key.seal_in_place_separate_tag(self.nonce(path, pn), Aad::from(&*header), plaintext);
        tag.copy_from_slice(sealed.expect("a packet is short").as_ref());
    }

    /// Seals a packet whose payload is in two places, without copying it first. The payload consists of
    /// `data`, for example memory of the application, and `footer`.
    ///
    /// `packet` consists of the complete header and the space for the data, the footer and the tag.
    ///
    /// # Panics
    /// Panics if `packet` does not have exactly the length of the header, `data`, `footer` and the tag.
    #[expect(clippy::expect_used, reason = "lengths are the caller's contract")]
    pub fn seal_from(
        &self,
        path: PathId,
        pn: u64,
        header_len: usize,
        data: &[u8],
        footer: &[u8],
        packet: &mut [u8],
    ) {
        let (header, payload) = packet.split_at_mut(header_len);
        let (sealed, rest) = payload.split_at_mut(data.len());
        self.key
            .seal_out_of_place_scatter(self.nonce(path, pn), Aad::from(&*header), data, sealed, footer, rest)
            .expect("room for data, footer and tag");
    }

    /// Opens a packet in place. Returns the length of the plaintext, which begins at `packet[header_len..]`.
    ///
    /// A failure destroys the payload, so only one key can be tried on it.
    pub fn open(
        &self,
        path: PathId,
        pn: u64,
        header_len: usize,
        packet: &mut [u8],
    ) -> Result<usize, OpenError> {
        let (header, payload) = packet.split_at_mut_checked(header_len).ok_or(OpenError)?;
        let plaintext = self.key.open_in_place(self.nonce(path, pn), Aad::from(&*header), payload);
        plaintext.map(|plaintext| plaintext.len()).map_err(|_| OpenError)
    }

    /// Opens `sealed` (ciphertext and tag) into `out`, which must be [`TAG_LEN`] bytes shorter. `sealed` is
    /// not changed.
    ///
    /// After a failure the content of `out` is unspecified (zeros, or plaintext that was not authenticated).
    /// A caller whose `out` contains received bytes must therefore save them beforehand. If the lengths do
    /// not match, the call fails without changing `out`.
    pub fn open_into(
        &self,
        path: PathId,
        pn: u64,
        header: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), OpenError> {
        let (ciphertext, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(OpenError)?;
        if ciphertext.len() != out.len() {
            return Err(OpenError);
        }
        self.key
            .open_separate_gather(self.nonce(path, pn), Aad::from(header), ciphertext, tag, out)
            .map_err(|_| OpenError)
    }

    fn nonce(&self, path: PathId, pn: u64) -> Nonce {
        Nonce::assume_unique_for_key(nonce(&self.iv, path, pn))
    }
}

/// Formats the cipher suite, never the key.
impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacketKey").field(&self.suite).finish()
    }
}

/// Returns the AEAD nonce: the exclusive OR of the IV with the path ID (in the first 32 bits) and with the
/// packet number (62 bits, in the last 64).
///
/// RFC 10069 defines it under "Nonce". With path ID 0 it equals the nonce of RFC 9001 §5.3, which all
/// encryption levels below 1-RTT use.
#[inline]
pub fn nonce(iv: &[u8; NONCE_LEN], path: PathId, pn: u64) -> [u8; NONCE_LEN] {
    let [a, b, c, d, low @ ..] = *iv;
    let high = u32::from_be_bytes([a, b, c, d]) ^ path.0;
    let low = u64::from_be_bytes(low) ^ pn;
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&high.to_be_bytes());
    nonce[4..].copy_from_slice(&low.to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests;
