//! TLS settings: s2n-tls, except for a cipher suite that s2n-tls cannot offer alone.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use peer_common::Failure;
use peer_common::args::{Client, Server};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use s2n_quic::provider::tls::s2n_tls::callbacks::{
    ConnectionFuture, SessionTicket, SessionTicketCallback, VerifyHostNameCallback,
};
use s2n_quic::provider::tls::s2n_tls::config::ConnectionInitializer;
use s2n_quic::provider::tls::s2n_tls::connection::Connection;
use s2n_quic::provider::tls::s2n_tls::{self, error, security};

/// s2n-tls policy of both client and server: TLS 1.3, X25519 first, no post-quantum group. The default policy
/// would send P-256 key shares.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3";

/// ALPN protocols of the server.
const ALPN: [&str; 3] = ["perf", "hq-interop", "h3"];

/// Maximum length of a chain of certificates. s2n-tls would accept seven.
const CHAIN: u16 = 16;

/// Number of tickets that s2n-tls issues for each full handshake.
const TICKETS: u32 = 1;

/// Returns the server's settings.
pub fn server(options: &Server) -> Result<s2n_tls::Server, Failure> {
    let mut tls = s2n_tls::Server::builder()
        .with_application_protocols(ALPN)?
        .with_certificate(&*options.cert, &*options.key)?;
    tls.config_mut().set_security_policy(&security::Policy::from_version(POLICY)?)?;
    if options.issues_tickets(TICKETS)? {
        let mut ticket_key = [0; 16];
        // If the system provides no randomness, the key is a known one, which a test does not mind.
        let _ = ::aws_lc_rs::rand::fill(&mut ticket_key);
        tls.config_mut().add_session_ticket_key(b"peer", &ticket_key, SystemTime::now())?;
    }
    Ok(tls.build()?)
}

/// Returns a client's settings. With `session`, it resumes the session that this has, and names are verified
/// by `session`.
pub fn client(options: &Client, session: Option<&Session>) -> Result<s2n_tls::Client, Failure> {
    let mut tls = s2n_tls::Client::builder()
        .with_empty_trust_store()?
        .with_certificate(&*options.ca)?
        .with_max_cert_chain_depth(CHAIN)?
        .with_application_protocols([options.work.alpn()])?;
    if let Some(session) = session {
        tls = tls.with_verify_host_name_callback(session.clone())?;
        tls.config_mut()
            .set_session_ticket_callback(session.clone())?
            .set_connection_initializer(session.clone())?;
    }
    tls.config_mut().set_security_policy(&security::Policy::from_version(POLICY)?)?;
    Ok(tls.build()?)
}

/// Returns settings of rustls that offer only TLS_CHACHA20_POLY1305_SHA256.
pub fn only_chacha20(options: &Client) -> Result<s2n_quic::provider::tls::rustls::Client, Failure> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    let mut roots = rustls::RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(&options.ca)? {
        roots.add(cert?)?;
    }
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![options.work.alpn().into()];
    Ok(config.into())
}

/// Session with a server whose name is known.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    name: String,
    ticket: Mutex<Option<Vec<u8>>>,
    verified: AtomicU64,
}

impl Session {
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Inner { name: name.to_owned(), ticket: Mutex::default(), verified: AtomicU64::new(0) }))
    }

    /// Returns how often a certificate's name was verified, which a resumed handshake never does.
    pub fn verified(&self) -> u64 {
        self.0.verified.load(Relaxed)
    }

    /// Returns the last ticket.
    pub fn ticket(&self) -> Option<Vec<u8>> {
        self.0.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl VerifyHostNameCallback for Session {
    fn verify_host_name(&self, name: &str) -> bool {
        self.0.verified.fetch_add(1, Relaxed);
        name == self.0.name
    }
}

impl SessionTicketCallback for Session {
    fn on_session_ticket(&self, _: &mut Connection, ticket: &SessionTicket) {
        let Ok(length) = ticket.len() else { return };
        let mut bytes = vec![0; length];
        if ticket.data(&mut bytes).is_ok() {
            *self.0.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        }
    }
}

impl ConnectionInitializer for Session {
    fn initialize_connection(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, error::Error> {
        if let Some(ticket) = self.ticket() {
            connection.set_session_ticket(&ticket)?;
        }
        Ok(None)
    }
}
