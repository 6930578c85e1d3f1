//! Users that the proxy authenticates by client certificates (mutual TLS).

use std::collections::BTreeMap;

use anabranch::rustls::pki_types::CertificateDer;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER_PERMISSIVE;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Prefix of a certificate's digest in the configuration.
const DIGEST: &str = "sha256:";
/// Prefix of the common name of a certificate's subject in the configuration.
const NAME: &str = "CN=";

/// Users by the SHA-256 digests of whole certificates, or by the common names of their subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Certificates {
    by_digest: BTreeMap<Vec<u8>, String>,
    by_name: BTreeMap<String, String>,
}

impl Certificates {
    /// Adds the certificate of a user: `sha256:DIGEST` or `CN=NAME`.
    ///
    /// # Errors
    /// Fails if the text is neither, or if another user has the same certificate.
    pub(super) fn add(&mut self, certificate: &str, user: &str) -> Result<(), String> {
        let wrong = || {
            format!("'{certificate}' is no certificate; write sha256: and 64 hexadecimal digits, or CN=NAME")
        };
        let before = if let Some(digits) = certificate.strip_prefix(DIGEST) {
            let digest =
                HEXLOWER_PERMISSIVE.decode(digits.replace(':', "").as_bytes()).map_err(|_| wrong())?;
            if digest.len() != SHA256.output_len() {
                return Err(wrong());
            }
            self.by_digest.insert(digest, user.to_owned())
        } else {
            let name = certificate.strip_prefix(NAME).filter(|name| !name.is_empty()).ok_or_else(wrong)?;
            self.by_name.insert(name.to_owned(), user.to_owned())
        };
        before.map_or(Ok(()), |other| Err(format!("'{certificate}' is the certificate of '{other}', too")))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_digest.is_empty() && self.by_name.is_empty()
    }

    /// Returns the user of the first certificate in a chain that TLS has verified. A digest takes precedence over a common
    /// name.
    pub(crate) fn user(&self, chain: &[CertificateDer<'_>]) -> Option<&str> {
        let certificate = chain.first()?;
        let by_digest = self.by_digest.get(digest(&SHA256, certificate).as_ref());
        by_digest.or_else(|| self.by_name.get(&common_name(certificate)?)).map(String::as_str)
    }
}

/// Returns the common name of a certificate's subject (RFC 5280 §4.1.2.6), if it has exactly one.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok()).map(str::to_owned);
    name.filter(|_| names.next().is_none())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn certificates_name_users_by_digest_or_by_common_name() {
        let mut params = CertificateParams::new(["x".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "laptop of bob");
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let chain = [made.der().clone()];
        let digits = HEXLOWER_PERMISSIVE.encode(digest(&SHA256, made.der()).as_ref());

        let mut certificates = Certificates::default();
        assert!(certificates.is_empty() && certificates.user(&chain).is_none());
        certificates.add("CN=laptop of bob", "bob").unwrap();
        assert_eq!(certificates.user(&chain), Some("bob"));
        certificates.add(&format!("sha256:{}", digits.to_uppercase()), "alice").unwrap();
        assert_eq!(certificates.user(&chain), Some("alice"), "a digest is more precise");
        assert_eq!(certificates.user(&[]), None);
        assert!(certificates.add("CN=laptop of bob", "eve").unwrap_err().contains("of 'bob', too"));
        for bad in ["", "CN=", "sha256:", "sha256:00", "O=x", &digits] {
            assert!(certificates.add(bad, "eve").unwrap_err().contains("is no certificate"), "{bad}");
        }
    }
}
