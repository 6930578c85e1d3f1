//! `--pin`: a client that trusts one key, regardless of the names and signatures in its certificate.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anabranch::rustls::pki_types::CertificateDer;
use anabranch::rustls::server::ParsedCertificate;
use anabranch::rustls::{CertificateError, Error, OtherError};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use crate::verifier::Judge;

/// Length of the digest, in bytes.
const LEN: usize = 32;

/// SHA-256 of a key's SubjectPublicKeyInfo (RFC 7469 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin([u8; LEN]);

impl Pin {
    /// Returns the pin of a key, given its SubjectPublicKeyInfo.
    pub(crate) fn of(public_key: &[u8]) -> Self {
        let mut pin = [0; LEN];
        pin.copy_from_slice(digest(&SHA256, public_key).as_ref());
        Self(pin)
    }

    /// Returns the digest in base64 without a prefix, as browsers expect it.
    pub(crate) fn base64(&self) -> String {
        BASE64.encode(&self.0)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.base64())
    }
}

impl FromStr for Pin {
    type Err = String;

    /// Parses a pin: `sha256:` or curl's `sha256//`, then the digest in base64 or as 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, String> {
        let digest = text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256//"));
        let bytes = digest.and_then(|digest| match digest.len() {
            64 => HEXLOWER_PERMISSIVE.decode(digest.as_bytes()).ok(),
            _ => BASE64.decode(digest.as_bytes()).ok(),
        });
        let pin = bytes.and_then(|bytes| bytes.try_into().ok()).map(Self);
        pin.ok_or_else(|| {
            "write sha256: and the digest of 32 bytes, as `anabranch serve` prints it".to_owned()
        })
    }
}

/// [`Judge`] that accepts the certificates of one pinned public key.
#[derive(Debug)]
pub(crate) struct PinnedKey(pub(crate) Pin);

/// Error for a key other than the pinned one.
struct Mismatch {
    pinned: Pin,
    shown: Pin,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its key is {} and not the pinned one, {}", self.shown, self.pinned)
    }
}

/// Writes the text of `Display`, because rustls formats errors of verifiers with `Debug`.
impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Mismatch {}

impl Judge for PinnedKey {
    fn judge(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Pin::of(&ParsedCertificate::try_from(certificate)?.subject_public_key_info());
        if shown == self.0 {
            return Ok(());
        }
        let mismatch = Mismatch { pinned: self.0, shown };
        Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;

    use super::*;

    #[test]
    fn pins_are_read_as_they_are_printed_and_as_curl_has_them() {
        let pin = Pin::of(b"a key");
        let hex: String = pin.0.iter().map(|byte| format!("{byte:02X}")).collect();
        for text in [pin.to_string(), format!("sha256//{}", pin.base64()), format!("sha256:{hex}")] {
            assert_eq!(text.parse::<Pin>(), Ok(pin), "{text}");
        }
        for bad in ["", "sha256:", &pin.base64(), "sha1:AAAA", "sha256:AAAA", &format!("sha256:{hex}00")] {
            assert!(bad.parse::<Pin>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_pinned_key_is_accepted() {
        let made = rcgen::generate_simple_self_signed(["elsewhere".to_owned()]).unwrap();
        let verified = |pin| PinnedKey(pin).judge(made.cert.der());
        let pin = Pin::of(&made.signing_key.subject_public_key_info());
        assert!(verified(pin).is_ok());
        let other = Pin::of(b"another key");
        let error = verified(other).unwrap_err().to_string();
        assert!(error.contains(&pin.to_string()) && error.contains(&other.to_string()), "{error}");
    }
}
