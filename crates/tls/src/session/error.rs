//! Errors of configurations and handshakes.

use rustls::AlertDescription;
use rustls::quic::Connection;

/// A configuration that cannot serve QUIC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A client was built without roots and without a verifier.
    #[error("a client needs root certificates or a certificate verifier")]
    NoTrust,
    /// A server was built without a certificate and without a resolver.
    #[error("a server needs a certificate with its key, or a certificate resolver")]
    NoCertificate,
    /// The crypto provider has no suite of TLS 1.3, or one that packets cannot be protected with.
    #[error("the crypto provider must offer TLS 1.3 suites, and only AES-GCM and ChaCha20-Poly1305 ones")]
    Suites,
    /// Early data together with stateless tickets: replays could not be told from first arrivals.
    #[error("early data needs the session cache: a ticketer cannot refuse a replayed ticket")]
    EarlyDataWithTicketer,
    /// The server's name is neither a host name nor an IP address.
    #[error("`{0}` is neither a host name nor an IP address")]
    ServerName(String),
    /// Something that the TLS library refuses.
    #[error("{0}")]
    Tls(String),
}

impl From<rustls::Error> for ConfigError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error.to_string())
    }
}

/// Kind of reason that a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsErrorKind {
    /// The peer's certificate was missing or not accepted.
    Certificate,
    /// No application protocol in common (RFC 9001 §8.1).
    ApplicationProtocol,
    /// The peer broke the protocol, or has nothing in common with us.
    Peer,
    /// This end failed.
    Internal,
}

/// A failed handshake; the connection closes with CRYPTO_ERROR (RFC 9001 §4.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct TlsError {
    /// The TLS alert (RFC 8446 §6).
    pub alert: u8,
    /// Kind of failure.
    pub kind: TlsErrorKind,
    /// For people.
    pub reason: String,
}

impl TlsError {
    /// Returns the QUIC error code, `0x100 + alert`.
    pub const fn code(&self) -> u64 {
        0x100 + self.alert as u64
    }

    pub(super) fn new(error: &rustls::Error, connection: &Connection) -> Self {
        let alert = connection.alert().unwrap_or_else(|| alert_of(error));
        Self { alert: alert.into(), kind: kind_of(error), reason: error.to_string() }
    }

    pub(super) fn internal(error: &rustls::Error) -> Self {
        let alert = AlertDescription::InternalError.into();
        Self { alert, kind: TlsErrorKind::Internal, reason: error.to_string() }
    }
}

/// Returns the alert of an error for which rustls raised none.
fn alert_of(error: &rustls::Error) -> AlertDescription {
    use rustls::Error;
    match error {
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            AlertDescription::UnexpectedMessage
        }
        Error::PeerIncompatible(_) => AlertDescription::HandshakeFailure,
        Error::PeerMisbehaved(_) => AlertDescription::IllegalParameter,
        Error::NoApplicationProtocol => AlertDescription::NoApplicationProtocol,
        Error::InvalidCertificate(_) => AlertDescription::BadCertificate,
        Error::NoCertificatesPresented => AlertDescription::CertificateRequired,
        _ => AlertDescription::InternalError,
    }
}

fn kind_of(error: &rustls::Error) -> TlsErrorKind {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(_)
        | Error::InvalidCertRevocationList(_)
        | Error::NoCertificatesPresented
        | Error::UnsupportedNameType => TlsErrorKind::Certificate,
        Error::NoApplicationProtocol => TlsErrorKind::ApplicationProtocol,
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerIncompatible(_)
        | Error::PeerMisbehaved(_)
        | Error::AlertReceived(_)
        | Error::DecryptError => TlsErrorKind::Peer,
        _ => TlsErrorKind::Internal,
    }
}
