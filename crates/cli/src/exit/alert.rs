//! Explanations of TLS alerts, with remedies.

use anabranch::{ConnectionError, alert_name};

use super::{Exit, Failure};

/// Remedy for a client that does not trust the server's certificate.
const TRUST: &str = "trust it with --ca FILE or its key with --pin sha256:…, or use --insecure if it does not matter who answers";

/// Explains an error that is a TLS alert (RFC 8446 §6); `None` for other errors.
pub(crate) fn explain(error: &ConnectionError) -> Option<Failure> {
    match error {
        ConnectionError::Transport(error) => Some(ours(error.code.alert()?, &error.reason)),
        ConnectionError::PeerTransport(error) => Some(theirs(error.code.alert()?, &error.reason)),
        _ => None,
    }
}

/// Explains an alert that this end sent, because it rejected the peer's part of the handshake.
fn ours(alert: u8, reason: &str) -> Failure {
    let (what, remedy) = match alert {
        48 => ("the peer's certificate is not trusted: nobody who is trusted here has signed it", TRUST),
        45 => (
            "the peer's certificate has expired, or is not valid yet",
            "check this host's clock, or have the certificate renewed",
        ),
        44 => ("the peer's certificate was revoked", "have it replaced"),
        42 | 43 | 46 | 49 => {
            let remedy = if reason.contains("not valid for name") {
                "use a name that is in the certificate, or trust its key with --pin sha256:…"
            } else if reason.contains("the pinned one") {
                "compare it with what the server prints: it may have another key now, or somebody else answers"
            } else {
                TRUST
            };
            ("the peer's certificate is not accepted", remedy)
        }
        120 => (
            "there is no application protocol in common",
            "the peer does not speak this application protocol",
        ),
        70 => ("there is no TLS version in common", "QUIC needs TLS 1.3"),
        _ => ("the TLS handshake failed", "the peer does not do what TLS 1.3 asks for"),
    };
    failure(alert, what, reason).or(remedy)
}

/// Explains an alert that the peer sent, because it rejected this end's part of the handshake.
fn theirs(alert: u8, reason: &str) -> Failure {
    let (what, remedy) = match alert {
        120 => (
            "the peer found no application protocol in common",
            "the peer does not speak this application protocol",
        ),
        112 => (
            "the peer has no certificate for this name",
            "use a name that it serves; an address is not a name to it",
        ),
        116 => ("the peer asks for a client certificate", "this command has none to show"),
        42..=46 | 48 | 49 => (
            "the peer does not accept the certificate of this end",
            "a client has to trust it: see --ca, --pin and --insecure of `anabranch get`",
        ),
        40 | 71 => {
            ("the peer found no cryptography in common", "it may want other cipher suites or key exchanges")
        }
        70 => ("the peer found no TLS version in common", "QUIC needs TLS 1.3"),
        80 => ("the peer's TLS failed for reasons of its own", "its log may say more"),
        _ => ("the peer ended the TLS handshake", "its log may say more"),
    };
    failure(alert, what, reason).or(remedy)
}

fn failure(alert: u8, what: &str, reason: &str) -> Failure {
    let exit = if matches!(alert, 42..=46 | 48 | 49 | 116) { Exit::Certificate } else { Exit::Handshake };
    let name = alert_name(alert).map(|name| format!(" {name}")).unwrap_or_default();
    // Removes rustls's wrapper `OtherError(…)` around errors of certificate verifiers; it means nothing to users.
    let reason = reason.split_once("OtherError(").map_or(reason, |(_, own)| own.trim_end_matches(')'));
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Failure::new(exit, format!("{what}{reason} (TLS alert {alert}{name})"))
}

#[cfg(test)]
mod tests {
    use anabranch::TransportError;
    use anabranch::TransportErrorCode;

    use super::*;

    fn of(alert: u8) -> TransportErrorCode {
        TransportErrorCode::crypto(alert)
    }

    #[test]
    fn every_alert_has_words_and_a_remedy() {
        for alert in 0..=u8::MAX {
            let error = TransportError::new(of(alert), "some reason");
            for error in [ConnectionError::Transport(error.clone()), ConnectionError::PeerTransport(error)] {
                let text = explain(&error).unwrap().to_string();
                assert!(text.contains(&format!("some reason (TLS alert {alert}")), "{text}");
                assert!(text.contains("; ") && !text.contains("CRYPTO_ERROR"), "{text}");
            }
        }
        assert!(explain(&ConnectionError::Reset).is_none());
    }

    #[test]
    fn an_unknown_issuer_is_told_from_a_wrong_name() {
        let said = |alert, reason: &'static str| {
            explain(&ConnectionError::Transport(TransportError::new(of(alert), reason))).unwrap()
        };
        let unknown = said(48, "invalid peer certificate: UnknownIssuer");
        assert_eq!(unknown.exit(), Exit::Certificate);
        assert!(unknown.to_string().contains("--pin sha256:") && unknown.to_string().contains("unknown_ca"));
        let name = said(42, "invalid peer certificate: certificate not valid for name \"x\"");
        assert!(name.to_string().contains("use a name that is in the certificate"), "{name}");
        assert_eq!(said(120, "").exit(), Exit::Handshake);
    }
}
