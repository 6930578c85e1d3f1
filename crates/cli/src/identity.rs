//! A server's identity: its certificate and the key of it, for QUIC and for TLS over TCP.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch::rustls::crypto::aws_lc_rs::default_provider;
use anabranch::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use anabranch::rustls::sign::CertifiedKey;
use anabranch::rustls::{self, Error, KeyLogFile};
use anabranch::tls::TicketKeys;
use anabranch::{SelfSigned, ServerConfig, TransportConfig, config, tls};
use clap::Args;

use crate::exit::{Exit, Failure, Result};
use crate::pin::Pin;

/// Source of a server's certificate.
#[derive(Args, Clone, Debug)]
pub(crate) struct Identity {
    /// Certificate chain; without one the server makes a certificate for localhost that nobody trusts by
    /// itself
    #[arg(long, value_name = "PEM", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,
    /// Keep the certificate that is made: it is written to FILE, for clients to trust with --ca FILE, and its
    /// key to FILE.key; the next start uses both again
    #[arg(long, value_name = "FILE", conflicts_with = "cert")]
    write_cert: Option<PathBuf>,
}

/// A key is for its owner only; everybody may read a certificate, as far as the process's umask permits.
const KEY_MODE: u32 = 0o600;
const MODE: u32 = 0o666;

impl Identity {
    /// Returns whether the certificate is made up when it is loaded.
    pub(crate) fn is_made_up(&self) -> bool {
        self.cert.is_none()
    }

    /// Returns the file in which the made-up certificate is kept.
    pub(crate) fn kept_in(&self) -> Option<&Path> {
        self.write_cert.as_deref()
    }

    /// Reads or makes it; one that is made is for this host, and for `names`.
    pub(crate) fn load(&self, names: &[String]) -> Result<Certified> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let wrong = |error| not_a_pair(cert, key, &error);
                Certified::new(config::certificates(cert)?, config::private_key(key)?).map_err(wrong)
            }
            _ => self.write_cert.as_deref().map_or_else(|| Ok(make(names)?.1), |cert| keep(cert, names)),
        }
    }
}

fn make(names: &[String]) -> Result<(SelfSigned, Certified)> {
    let usual = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let made = SelfSigned::new(usual.into_iter().chain(names.iter().cloned()))?;
    let certified = Certified::new(vec![made.certificate().clone()], made.key());
    Ok((made, certified.map_err(|error| Failure::new(Exit::Usage, error))?))
}

/// Returns the certificate in `cert` and its key beside it, made and written there if neither is there yet.
fn keep(cert: &Path, names: &[String]) -> Result<Certified> {
    let mut key = cert.as_os_str().to_owned();
    key.push(".key");
    let key = Path::new(&key);
    match (cert.exists(), key.exists()) {
        (true, true) => {
            let wrong = |error| not_a_pair(cert, key, &error);
            return Certified::new(config::certificates(cert)?, config::private_key(key)?).map_err(wrong);
        }
        (false, false) => {}
        (has_cert, _) => {
            let (there, missing) = if has_cert { (cert, key) } else { (key, cert) };
            let what = format!("{} is there, but not {}", there.display(), missing.display());
            return Err(
                Failure::new(Exit::Usage, what).or("name another file with --write-cert, or remove it")
            );
        }
    }
    let (made, certified) = make(names)?;
    let (certificate, secret) = made.pem();
    let write = |path: &Path, text: &str, mode: u32| {
        let file = File::options().write(true).create_new(true).mode(mode).open(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Failure::io(format_args!("cannot write {}", path.display()), &error))
    };
    write(key, secret, KEY_MODE)?;
    write(cert, certificate, MODE)?;
    Ok(certified)
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
    /// Keys that protect session tickets, if other servers are to read them.
    tickets: Option<Arc<TicketKeys>>,
}

impl Certified {
    /// Fails unless the key is that of the first certificate.
    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> std::result::Result<Self, Error> {
        let pair = CertifiedKey::from_der(chain.clone(), key.clone_key(), &default_provider())?;
        let public_key = pair.key.public_key().map(|key| key.as_ref().to_vec()).unwrap_or_default();
        Ok(Self { chain, key, public_key, tickets: None })
    }

    /// Protects session tickets with these keys.
    pub(crate) fn with_tickets(self, tickets: Option<Arc<TicketKeys>>) -> Self {
        Self { tickets, ..self }
    }

    /// Returns the pin by which clients recognize the key: `--pin` of ours, and Chromium's
    /// `--ignore-certificate-errors-spki-list`.
    pub(crate) fn pin(&self) -> Pin {
        Pin::of(&self.public_key)
    }

    /// Creates the configuration for QUIC. Without ticket keys it accepts early data, too: everything that is
    /// served may be requested twice.
    pub(crate) fn quic(&self, alpn: &[&str], transport: TransportConfig) -> Result<ServerConfig> {
        let certified = tls::ServerConfig::builder().certificate(self.chain.clone(), self.key.clone_key());
        let builder = certified.alpn(alpn).key_log_from_environment();
        let builder = match &self.tickets {
            Some(keys) => builder.ticketer(Arc::clone(keys) as _),
            None => builder.early_data(true),
        };
        let mut config =
            ServerConfig::new(builder.build().map_err(|error| Failure::new(Exit::Usage, error))?);
        config = config.with_transport(transport);
        Ok(config)
    }

    /// Creates the configuration for TLS 1.3 over TCP.
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
        if let Some(keys) = &self.tickets {
            config.ticketer = Arc::clone(keys) as _;
        }
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
        assert_eq!(certified.pin(), Pin::of(&made.signing_key.subject_public_key_info()));
    }

    #[test]
    fn a_certificate_that_is_kept_stays_the_same() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("cert.pem.key"));
        let identity = Identity { cert: None, key: None, write_cert: Some(cert.clone()) };
        let made = identity.load(&["192.0.2.1".to_owned()]).unwrap();
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, KEY_MODE);
        assert_eq!(config::certificates(&cert).unwrap(), made.chain);
        assert_eq!(identity.load(&[]).unwrap().pin(), made.pin());
        std::fs::remove_file(&key).unwrap();
        let refused = identity.load(&[]).unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains("cert.pem.key"), "{refused}");
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
