//! Self-signed certificates.

use anabranch_tls::rustls::RootCertStore;
use anabranch_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use anabranch_transport::ServerConfig;

use super::{ConfigError, server};

/// Self-signed certificate, for tests, and for servers whose clients are configured to trust it.
///
/// ```
/// use anabranch::{SelfSigned, config};
///
/// let identity = SelfSigned::new(["localhost", "127.0.0.1"])?;
/// let server_config = identity.server_config(["my-protocol"])?;
/// let client_config = config::client(identity.roots()?, ["my-protocol"])?;
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Debug)]
pub struct SelfSigned {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    /// Certificate and key in PEM.
    pem: (String, String),
}

impl SelfSigned {
    /// Generates a new key (P-256), and a certificate for these host names and IP addresses.
    ///
    /// # Errors
    /// Fails if a certificate cannot contain one of the names.
    pub fn new<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Result<Self, ConfigError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let key = rcgen::KeyPair::generate()?;
        let mut parameters = rcgen::CertificateParams::new(names)?;
        // The name is derived from the key. Two certificates with one name would look like one issuer with a
        // forged signature.
        let name: String = key.public_key_raw().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("self-signed {name}"));
        let certificate = parameters.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
            pem: (certificate.pem(), key.serialize_pem()),
        })
    }

    /// Returns the certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the certificate and its private key (PKCS #8) in PEM. Anybody who reads the key can
    /// impersonate this server.
    pub fn pem(&self) -> (&str, &str) {
        (&self.pem.0, &self.pem.1)
    }

    /// Returns the private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }

    /// Returns a root store for clients that are to trust the certificate.
    ///
    /// # Errors
    /// Fails only if TLS cannot parse the certificate that was generated here.
    pub fn roots(&self) -> Result<RootCertStore, ConfigError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(roots)
    }

    /// Creates the configuration of a server that presents the certificate; see [`server`].
    ///
    /// # Errors
    /// Fails if TLS refuses the configuration.
    pub fn server_config<T: AsRef<[u8]>>(
        &self,
        alpn: impl IntoIterator<Item = T>,
    ) -> Result<ServerConfig, ConfigError> {
        server(vec![self.certificate.clone()], self.key(), alpn)
    }
}
