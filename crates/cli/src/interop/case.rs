//! Test cases, by the behaviour that they require of an endpoint.

use crate::hq;
use crate::perf::http3;

/// Behaviour that a test case requires of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestCase {
    /// One connection, one small file, no Retry.
    Handshake,
    /// One connection, all files at once, with small flow control windows that must be extended.
    Transfer,
    /// One connection for each file.
    MultiConnect,
    /// Both ends support only TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20,
    /// The client initiates a key update early.
    KeyUpdate,
    /// The server validates every client's address with Retry.
    Retry,
    /// The first file on one connection, the others on a second one that resumes the session.
    Resumption,
    /// Like `Resumption`, but the second connection sends its requests in 0-RTT.
    ZeroRtt,
    /// The client begins with version 1 and the server chooses version 2 (RFC 9368).
    V2,
    /// The runner checks ECN marks.
    Ecn,
    /// The server has a preferred address, to which the client migrates.
    ConnectionMigration,
    /// All files at once, over HTTP/3.
    Http3,
}

/// The runner's names of test cases, as in TESTCASE and in its lists. Several names may require the same
/// behaviour.
const NAMES: &[(&str, TestCase)] = &[
    ("handshake", TestCase::Handshake),
    ("longrtt", TestCase::Handshake),
    ("transfer", TestCase::Transfer),
    ("multiplexing", TestCase::Transfer),
    ("blackhole", TestCase::Transfer),
    ("amplificationlimit", TestCase::Transfer),
    ("transferloss", TestCase::Transfer),
    ("transfercorruption", TestCase::Transfer),
    ("ipv6", TestCase::Transfer),
    ("rebind-port", TestCase::Transfer),
    ("rebind-addr", TestCase::Transfer),
    ("goodput", TestCase::Transfer),
    ("crosstraffic", TestCase::Transfer),
    ("multiconnect", TestCase::MultiConnect),
    ("handshakeloss", TestCase::MultiConnect),
    ("handshakecorruption", TestCase::MultiConnect),
    ("chacha20", TestCase::ChaCha20),
    ("keyupdate", TestCase::KeyUpdate),
    ("retry", TestCase::Retry),
    ("resumption", TestCase::Resumption),
    ("zerortt", TestCase::ZeroRtt),
    ("v2", TestCase::V2),
    ("ecn", TestCase::Ecn),
    ("connectionmigration", TestCase::ConnectionMigration),
    ("http3", TestCase::Http3),
];

/// Idle timeouts in milliseconds: of most cases, and of cases in which a third of all packets is lost. With
/// these losses, the probe timeout, one second at first, may double several times until a round trip
/// succeeds.
const IDLE_MS: u64 = 30_000;
const PERSISTENT_IDLE_MS: u64 = 120_000;

impl TestCase {
    /// Returns the case with this name; `None` if it is unknown.
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, case)| *case)
    }

    /// Returns the idle timeout in milliseconds.
    pub(super) fn idle_ms(self) -> u64 {
        if self == Self::MultiConnect { PERSISTENT_IDLE_MS } else { IDLE_MS }
    }

    /// Returns the application protocol of the files.
    pub(super) fn alpn(self) -> &'static str {
        if self == Self::Http3 { http3::ALPN } else { hq::ALPN }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_of_the_runner_is_known_once() {
        let names: BTreeSet<_> = NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), NAMES.len());
        let runner = "handshake transfer longrtt chacha20 multiplexing retry resumption zerortt blackhole keyupdate ecn \
                      amplificationlimit handshakeloss handshakecorruption transferloss transfercorruption ipv6 v2 \
                      rebind-port rebind-addr connectionmigration goodput crosstraffic multiconnect http3";
        for name in runner.split_whitespace() {
            assert!(TestCase::named(name).is_some(), "{name}");
        }
        assert_eq!(TestCase::named(""), None);
        assert_eq!(TestCase::named("Handshake"), None);
    }
}
