//! `--pin`: a client that trusts one key, regardless of the names and signatures in its certificate.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anabranch::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use anabranch::rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use anabranch::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use anabranch::rustls::server::ParsedCertificate;
use anabranch::rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

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

/// Certificate verifier that accepts one pinned public key. The handshake signature proves that the server
/// holds the private key.
#[derive(Debug)]
pub(crate) struct PinnedKey {
    pin: Pin,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedKey {
    pub(crate) fn new(pin: Pin) -> Self {
        Self { pin, algorithms: default_provider().signature_verification_algorithms }
    }
}

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

/// Writes the text of `Display`: rustls formats errors of others with `Debug`.
impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Mismatch {}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Pin::of(&ParsedCertificate::try_from(certificate)?.subject_public_key_info());
        if shown == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = Mismatch { pinned: self.pin, shown };
        Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
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
        let verified = |pin| {
            let name = ServerName::try_from("localhost").unwrap();
            PinnedKey::new(pin).verify_server_cert(made.cert.der(), &[], &name, &[], UnixTime::now())
        };
        let pin = Pin::of(&made.signing_key.subject_public_key_info());
        assert!(verified(pin).is_ok());
        let other = Pin::of(b"another key");
        let error = verified(other).unwrap_err().to_string();
        assert!(error.contains(&pin.to_string()) && error.contains(&other.to_string()), "{error}");
    }
}
