//! Who a server is: its certificate and the key of it, for QUIC and for TLS over TCP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch::tls::rustls::crypto::aws_lc_rs::default_provider;
use anabranch::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use anabranch::tls::rustls::sign::CertifiedKey;
use anabranch::tls::rustls::{self, Error, KeyLogFile};
use anabranch::{SelfSigned, ServerConfig, TransportConfig, config, tls};
use aws_lc_rs::digest::{SHA256, digest};
use clap::Args;
use data_encoding::BASE64;

use crate::exit::{Exit, Failure, Result};

/// Where a server's certificate is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Identity {
    /// Certificate chain; without one the server makes a certificate for localhost that nobody trusts by itself
    #[arg(long, value_name = "PEM", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,
}

impl Identity {
    /// Whether the certificate is made up when it is loaded.
    pub(crate) fn is_made_up(&self) -> bool {
        self.cert.is_none()
    }

    pub(crate) fn load(&self) -> Result<Certified> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let wrong = |error| not_a_pair(cert, key, &error);
                Certified::new(config::certificates(cert)?, config::private_key(key)?).map_err(wrong)
            }
            _ => {
                let made = SelfSigned::new(["localhost", "127.0.0.1", "::1"])?;
                let certified = Certified::new(vec![made.certificate().clone()], made.key());
                certified.map_err(|error| Failure::new(Exit::Usage, error))
            }
        }
    }
}

fn not_a_pair(cert: &Path, key: &Path, error: &Error) -> Failure {
    let (cert, key) = (cert.display(), key.display());
    match error {
        Error::InconsistentKeys(_) => {
            Failure::new(Exit::Usage, format!("the key in {key} is not that of the certificate in {cert}"))
        }
        error => Failure::new(Exit::Usage, format!("cannot use {cert} with {key}: {error}")),
    }
}

/// A certificate chain and its key.
#[derive(Debug)]
pub(crate) struct Certified {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// SubjectPublicKeyInfo of the key (RFC 5280 §4.1.2.7).
    public_key: Vec<u8>,
}

impl Certified {
    /// Fails unless the key is that of the first certificate.
    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> std::result::Result<Self, Error> {
        let pair = CertifiedKey::from_der(chain.clone(), key.clone_key(), &default_provider())?;
        let public_key = pair.key.public_key().map(|key| key.as_ref().to_vec()).unwrap_or_default();
        Ok(Self { chain, key, public_key })
    }

    /// SHA-256 of the SubjectPublicKeyInfo in base64, as browsers take it (RFC 7469 §2.4; Chromium's
    /// `--ignore-certificate-errors-spki-list`).
    pub(crate) fn pin(&self) -> String {
        BASE64.encode(digest(&SHA256, &self.public_key).as_ref())
    }

    /// For QUIC. Accepts early data, too: everything that is served may be asked for twice.
    pub(crate) fn quic(&self, alpn: &[&str], transport: TransportConfig) -> Result<ServerConfig> {
        let certified = tls::ServerConfig::builder().certificate(self.chain.clone(), self.key.clone_key());
        let builder = certified.alpn(alpn).early_data(true).key_log_from_environment();
        let mut config =
            ServerConfig::new(builder.build().map_err(|error| Failure::new(Exit::Usage, error))?);
        config.transport = Arc::new(transport);
        Ok(config)
    }

    /// For TLS 1.3 over TCP.
    pub(crate) fn tcp(&self, alpn: &[&str]) -> Result<Arc<rustls::ServerConfig>> {
        let refused = |error: Error| Failure::new(Exit::Usage, error);
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(refused)?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(refused)?;
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;

    use super::*;

    #[test]
    fn pins_are_of_the_whole_public_key_info() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let certified = Certified::new(vec![made.cert.der().clone()], key).unwrap();
        assert_eq!(certified.public_key, made.signing_key.subject_public_key_info());
        assert_eq!(BASE64.decode(certified.pin().as_bytes()).unwrap().len(), 32);
    }

    #[test]
    fn keys_of_others_are_refused() {
        let [one, other] =
            [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
        let key = PrivateKeyDer::try_from(other.signing_key.serialize_der()).unwrap();
        let refused = Certified::new(vec![one.cert.der().clone()], key).unwrap_err();
        let failure = not_a_pair(Path::new("c.pem"), Path::new("k.pem"), &refused);
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains("the key in k.pem is not that of"), "{failure}");
    }
}
