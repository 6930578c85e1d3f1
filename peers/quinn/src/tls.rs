//! TLS settings: P-256 certificates, X25519 key exchange, tickets and 0-RTT.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use peer_common::{Failure, failed};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ServerSessionMemoryCache;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

/// Number of sessions that a server stores. rustls accepts 0-RTT only for sessions that it stores (RFC 8446
/// §8.1).
const SESSIONS: usize = 4096;

/// Returns a provider without post-quantum groups. Their cost would hide the differences that the handshake
/// benchmark measures.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    provider
}

/// Returns the server's TLS settings. `tickets` is the number of tickets for each full handshake, if it is not
/// that of rustls.
pub fn server(cert: &Path, key: &Path, tickets: Option<u32>) -> Result<Arc<QuicServerConfig>, Failure> {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.alpn_protocols = crate::ALPN.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.max_early_data_size = u32::MAX;
    if let Some(tickets) = tickets {
        config.send_tls13_tickets = usize::try_from(tickets)?;
    }
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(QuicServerConfig::try_from(config)?))
}

/// TLS options of a client.
pub struct Wish<'a> {
    pub ca: &'a Path,
    pub alpn: &'a str,
    pub only_chacha20: bool,
    pub resume: bool,
}

/// Returns the client's TLS settings, and the count of certificates that it has verified. A resumed handshake
/// verifies none.
pub fn client(wish: &Wish<'_>) -> Result<(Arc<QuicClientConfig>, Arc<AtomicU64>), Failure> {
    let mut provider = provider();
    if wish.only_chacha20 {
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    let provider = Arc::new(provider);
    let pinned = CertificateDer::pem_file_iter(wish.ca)?.collect::<Result<Vec<_>, _>>()?;
    let mut roots = RootCertStore::empty();
    for cert in &pinned {
        roots.add(cert.clone())?;
    }
    let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build()?;
    let verified = Arc::new(AtomicU64::new(0));
    let verifier = Verifier { inner, pinned, verified: Arc::clone(&verified) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![wish.alpn.into()];
    config.enable_early_data = wish.resume;
    if !wish.resume {
        config.resumption = Resumption::disabled();
    }
    // Initial packets need AES-128 (RFC 9001 §5.2), even if the handshake must not offer it.
    let initial =
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let Some(initial) = initial else { return failed("no suite for Initial packets") };
    Ok((Arc::new(QuicClientConfig::with_initial(Arc::new(config), initial)?), verified))
}

/// Certificate verifier that counts. It also accepts a trusted CA certificate that the server itself presents
/// (`openssl req -x509`).
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
    verified: Arc<AtomicU64>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verified.fetch_add(1, Relaxed);
        match self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.pinned.iter().any(|pinned| pinned == end_entity) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
