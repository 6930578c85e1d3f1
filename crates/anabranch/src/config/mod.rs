//! Configurations from PEM files with certificates and keys.
//!
//! Every configuration created here honours the environment variable SSLKEYLOGFILE, so that captured traffic
//! can be decrypted.

#[cfg(feature = "self-signed")]
mod self_signed;

use std::io;
use std::path::{Path, PathBuf};

use anabranch_tls::rustls::RootCertStore;
use anabranch_tls::rustls::pki_types::pem::{self, PemObject};
use anabranch_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use anabranch_transport::{ClientConfig, ServerConfig};

#[cfg(feature = "self-signed")]
pub use self::self_signed::SelfSigned;

/// Reason why a configuration could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file does not contain the expected PEM item.
    #[error("{path} holds no {what} in PEM: {error}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Kind of the expected item.
        what: &'static str,
        /// Error in the PEM file.
        error: pem::Error,
    },
    /// A certificate cannot be trusted as a root.
    #[error("not a certificate to trust: {0}")]
    Root(#[from] anabranch_tls::rustls::Error),
    /// The system has no root certificates.
    #[cfg(feature = "native-roots")]
    #[error("the system has no root certificates")]
    NoSystemRoots,
    /// A certificate cannot be created.
    #[cfg(feature = "self-signed")]
    #[error("cannot make a certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
    /// TLS refuses the configuration.
    #[error(transparent)]
    Tls(#[from] anabranch_tls::ConfigError),
}

/// Creates the configuration of a client that trusts `roots` and offers the application protocols `alpn`,
/// most preferred first. The client resumes sessions and can send early data.
///
/// # Errors
/// Fails if TLS refuses the configuration.
pub fn client<T: AsRef<[u8]>>(
    roots: RootCertStore,
    alpn: impl IntoIterator<Item = T>,
) -> Result<ClientConfig, ConfigError> {
    let builder = anabranch_tls::ClientConfig::builder().roots(roots).alpn(alpn).early_data(true);
    Ok(ClientConfig::new(builder.key_log_from_environment().build()?))
}

/// Creates the configuration of a server with this certificate chain (its own certificate first) and private
/// key, for the application protocols `alpn`. Sessions can be resumed. Early data is not accepted because it
/// can be replayed; see [`anabranch_tls::ServerConfigBuilder`].
///
/// # Errors
/// Fails if TLS refuses the configuration.
pub fn server<T: AsRef<[u8]>>(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    alpn: impl IntoIterator<Item = T>,
) -> Result<ServerConfig, ConfigError> {
    let builder = anabranch_tls::ServerConfig::builder().certificate(chain, key).alpn(alpn);
    Ok(ServerConfig::new(builder.key_log_from_environment().build()?))
}

/// Reads the certificates from a PEM file.
///
/// # Errors
/// Fails if the file cannot be read or contains no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let what = "certificate";
    let text = read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| ConfigError::Pem { path: path.into(), what, error })?;
    if certificates.is_empty() {
        return Err(ConfigError::Pem { path: path.into(), what, error: pem::Error::NoItemsFound });
    }
    Ok(certificates)
}

/// Reads the first private key from a PEM file.
///
/// # Errors
/// Fails if the file cannot be read or contains no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    let what = "private key";
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| ConfigError::Pem { path: path.into(), what, error })
}

/// Returns a root store that trusts the certificates in a PEM file.
///
/// # Errors
/// Fails if the file cannot be read, if it contains no certificate, or if a certificate cannot be a root.
pub fn roots(path: &Path) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// Returns a root store that trusts the operating system's root certificates.
///
/// # Errors
/// Fails if the system has no root certificates.
#[cfg(feature = "native-roots")]
pub fn system_roots() -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(ConfigError::NoSystemRoots) } else { Ok(roots) }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| ConfigError::File { path: path.into(), error })
}
