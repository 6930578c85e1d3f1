//! Secrets and HKDF-Expand-Label (RFC 8446 §7.1).

use core::fmt;

use aws_lc_rs::hkdf::{KeyType, Prk};
use zeroize::Zeroize;

use crate::Suite;

/// Maximum length of a traffic secret in bytes: the output of SHA-384.
const MAX_SECRET_LEN: usize = 48;

/// Traffic secret. It is erased when it is dropped, and never printed.
#[derive(Clone)]
pub(crate) struct Secret {
    bytes: [u8; MAX_SECRET_LEN],
    len: usize,
}

impl Secret {
    /// Copies a secret; `None` if it is longer than the output of any hash in TLS 1.3.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let mut secret = Self { bytes: [0; MAX_SECRET_LEN], len: bytes.len() };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    /// Computes HKDF-Expand-Label(self, label, "", out.len()) with the suite's hash.
    pub(crate) fn expand_label(&self, suite: Suite, label: &str, out: &mut [u8]) {
        let prk = Prk::new_less_safe(suite.hkdf(), &self.bytes[..self.len]);
        expand_label(&prk, label, out);
    }

    /// Derives the secret for `label`. It is as long as this secret.
    pub(crate) fn derive(&self, suite: Suite, label: &str) -> Self {
        let mut next = Self { bytes: [0; MAX_SECRET_LEN], len: self.len };
        self.expand_label(suite, label, &mut next.bytes[..self.len]);
        next
    }

    /// Derives the secret for an application's `label` and a hash. It is as long as this secret. Returns `None` if the label is too
    /// long.
    pub(crate) fn derive_for(&self, suite: Suite, label: &[u8], hash: &[u8]) -> Option<Self> {
        let mut next = Self { bytes: [0; MAX_SECRET_LEN], len: self.len };
        self.expand_with(suite, label, hash, &mut next.bytes[..self.len])?;
        Some(next)
    }

    /// Computes HKDF-Expand-Label(self, label, context, out.len()) with the suite's hash. Returns `None` if a length is beyond its
    /// limit.
    pub(crate) fn expand_with(
        &self,
        suite: Suite,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Option<()> {
        let prk = Prk::new_less_safe(suite.hkdf(), &self.bytes[..self.len]);
        try_expand_label(&prk, label, context, out)
    }

    /// Returns the bytes of the secret, for tests.
    #[cfg(test)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Computes HKDF-Expand-Label(prk, label, "", out.len()).
#[expect(
    clippy::expect_used,
    reason = "labels and lengths are constants of the protocol, within HKDF's limits"
)]
pub(crate) fn expand_label(prk: &Prk, label: &str, out: &mut [u8]) {
    try_expand_label(prk, label.as_bytes(), &[], out).expect("short labels and keys");
}

/// Computes HKDF-Expand-Label(prk, label, context, out.len()). Returns `None` if a length is beyond its limit.
fn try_expand_label(prk: &Prk, label: &[u8], context: &[u8], out: &mut [u8]) -> Option<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let len = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_len = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_len = [u8::try_from(context.len()).ok()?];
    // HkdfLabel: length, label and context.
    let info: [&[u8]; 6] = [&len, &label_len, PREFIX, label, &context_len, context];
    prk.expand(&info, Length(out.len())).and_then(|okm| okm.fill(out)).ok()
}

/// Output length in the form that aws-lc-rs requires.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
