//! Errors of configurations and handshakes.

use rustls::AlertDescription;
use rustls::quic::Connection;

/// Error of a configuration that cannot be used for QUIC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A client has neither root certificates nor a certificate verifier.
    #[error("a client needs root certificates or a certificate verifier")]
    NoTrust,
    /// A server has neither a certificate nor a certificate resolver.
    #[error("a server needs a certificate with its key, or a certificate resolver")]
    NoCertificate,
    /// The crypto provider has no TLS 1.3 cipher suite, or has one that packet protection does not support.
    #[error("the crypto provider must offer TLS 1.3 suites, and only AES-GCM and ChaCha20-Poly1305 ones")]
    Suites,
    /// A server has early data and stateless tickets, with which it could not detect replays.
    #[error("early data needs the session cache: a ticketer cannot refuse a replayed ticket")]
    EarlyDataWithTicketer,
    /// The server's name is neither a host name nor an IP address.
    #[error("`{0}` is neither a host name nor an IP address")]
    ServerName(String),
    /// The TLS library rejects the configuration.
    #[error("{0}")]
    Tls(String),
}

impl From<rustls::Error> for ConfigError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error.to_string())
    }
}

/// Kind of a handshake failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsErrorKind {
    /// The peer's certificate was missing or rejected.
    Certificate,
    /// There is no common application protocol (RFC 9001 §8.1).
    ApplicationProtocol,
    /// The peer violated the protocol, or supports nothing in common with this endpoint.
    Peer,
    /// This endpoint failed.
    Internal,
}

/// Failed handshake. The connection is closed with CRYPTO_ERROR (RFC 9001 §4.8), or with PROTOCOL_VIOLATION if
/// a message is forbidden in QUIC alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct TlsError {
    /// TLS alert (RFC 8446 §6).
    pub alert: u8,
    /// Kind of the failure.
    pub kind: TlsErrorKind,
    /// Human-readable reason.
    pub reason: String,
    /// `true` if QUIC forbids what TLS permits.
    violates_quic: bool,
}

impl TlsError {
    /// Returns the QUIC error code: `0x100 + alert`, or PROTOCOL_VIOLATION where RFC 9001 demands it.
    pub const fn code(&self) -> u64 {
        if self.violates_quic { PROTOCOL_VIOLATION } else { 0x100 + self.alert as u64 }
    }

    pub(super) fn new(error: &rustls::Error, connection: &Connection) -> Self {
        let alert = connection.alert().unwrap_or_else(|| alert_of(error));
        let violates_quic = violates_quic(error, connection);
        Self { alert: alert.into(), kind: kind_of(error), reason: error.to_string(), violates_quic }
    }

    /// Returns the error for a message where none is permitted.
    pub(super) fn unexpected_message() -> Self {
        Self {
            alert: AlertDescription::UnexpectedMessage.into(),
            kind: TlsErrorKind::Peer,
            reason: "a message after the handshake".to_owned(),
            violates_quic: false,
        }
    }

    pub(super) fn internal(error: &rustls::Error) -> Self {
        let alert = AlertDescription::InternalError.into();
        let (kind, reason) = (TlsErrorKind::Internal, error.to_string());
        Self { alert, kind, reason, violates_quic: false }
    }
}

/// QUIC error code for a violation of RFC 9001 (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// Returns whether RFC 9001 demands PROTOCOL_VIOLATION instead of the alert: for bytes that are left over at the
/// end of an encryption level (§4.1.3), for a certificate request after the handshake (§4.4), and for a ticket
/// with a limit on early data (§4.6.1).
fn violates_quic(error: &rustls::Error, connection: &Connection) -> bool {
    use rustls::{Error, HandshakeType, PeerMisbehaved};
    match error {
        Error::PeerMisbehaved(
            PeerMisbehaved::KeyEpochWithPendingFragment | PeerMisbehaved::InvalidMaxEarlyDataSize,
        ) => true,
        Error::InappropriateHandshakeMessage { got_type: HandshakeType::CertificateRequest, .. } => {
            !connection.is_handshaking()
        }
        _ => false,
    }
}

/// Returns the alert for an error for which rustls has chosen none.
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
