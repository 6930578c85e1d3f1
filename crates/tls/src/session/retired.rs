//! Facts of a server's session whose handshake has ended, without the state of the TLS library.

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;

use super::open::Open;
use crate::Suite;
use crate::hkdf::Secret;

/// Facts of a session that has ended its handshake. An idle connection keeps them instead of the library's state, which is ten times
/// as large.
pub(super) struct Retired {
    pub(super) suite: Option<Suite>,
    pub(super) alpn: Option<Box<[u8]>>,
    pub(super) server_name: Option<Box<str>>,
    pub(super) certificates: Option<Box<[CertificateDer<'static>]>>,
    pub(super) parameters: Option<Box<[u8]>>,
    pub(super) is_resumed: bool,
    exporter: Option<Secret>,
}

impl Retired {
    /// Copies the facts of an open session.
    pub(super) fn new(open: &Open) -> Self {
        Self {
            suite: open.suite(),
            alpn: open.connection.alpn_protocol().map(Box::from),
            server_name: open.server_name().map(Box::from),
            certificates: open.connection.peer_certificates().map(Box::from),
            parameters: open.connection.quic_transport_parameters().map(Box::from),
            is_resumed: open.is_resumed(),
            exporter: open.tap.take_exporter(),
        }
    }

    /// Fills `out` with exported keying material (RFC 8446 §7.5). Returns `None` if it is empty or longer than 255 hashes.
    pub(super) fn export(&self, out: &mut [u8], label: &[u8], context: Option<&[u8]>) -> Option<()> {
        let (suite, exporter) = (self.suite?, self.exporter.as_ref()?);
        let hash = |bytes: &[u8]| digest::digest(suite.digest(), bytes);
        if out.is_empty() {
            return None;
        }
        // Derive-Secret hashes no messages, and a missing context is an empty one.
        let secret = exporter.derive_for(suite, label, hash(&[]).as_ref())?;
        secret.expand_with(suite, b"exporter", hash(context.unwrap_or_default()).as_ref(), out)
    }
}
