//! Sessions of a client and a server against each other: handshakes, resumption, early data, errors.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_seeded::{Identity, deterministic_provider};
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_tls::{
    ClientConfig, ClientHello, ConfigError, DirectionKeys, KeyChange, PacketKey, Secrets, ServerConfig,
    Session, Suite, TAG_LEN, TlsError, TlsErrorKind, client_hello_parameters,
};
use anabranch_wire::{Format, PathId, Time, Version};
use proptest::prelude::*;
use rustls::KeyLog;

const NAME: &str = "server.test";
const CLIENT_PARAMETERS: &[u8] = b"client parameters";
const SERVER_PARAMETERS: &[u8] = b"server parameters";

fn no_key_log() -> Arc<dyn KeyLog> {
    Arc::new(rustls::NoKeyLog)
}

/// Configurations of a client and of a server that it trusts.
struct Pair {
    client: ClientConfig,
    server: ServerConfig,
    trust: Trust,
}

impl Pair {
    fn new() -> Self {
        Self::with(true, &no_key_log())
    }

    fn with(early_data: bool, key_log: &Arc<dyn KeyLog>) -> Self {
        seed_thread(1);
        let trust = Trust::new(NAME);
        let client =
            trust.client("test").alpn(["h3", "test"]).early_data(early_data).key_log(Arc::clone(key_log));
        let server = trust.server("test").early_data(early_data);
        Self { client: client.build().unwrap(), server: server.build().unwrap(), trust }
    }

    fn sessions(&self) -> (End, End) {
        self.sessions_in(Version::V1)
    }

    fn sessions_in(&self, version: Version) -> (End, End) {
        let client = self.client.for_version(version);
        let server = self.server.for_version(version);
        let client = Session::client(&client, NAME, CLIENT_PARAMETERS.to_vec()).unwrap();
        let server = Session::server(&server, SERVER_PARAMETERS.to_vec()).unwrap();
        (End::new(client), End::new(server))
    }

    /// Completes a handshake, after which the client has tickets.
    fn acquaint(&self, version: Version) -> (End, End) {
        let (mut client, mut server) = self.sessions_in(version);
        shake_hands(&mut client, &mut server).unwrap();
        (client, server)
    }
}

/// Session with the state that a connection would keep.
struct End {
    session: Session,
    handshake: Option<Secrets>,
    one_rtt: Option<Secrets>,
}

impl End {
    fn new(session: Session) -> Self {
        Self { session, handshake: None, one_rtt: None }
    }

    /// Returns all handshake bytes that can be written now, one piece for each encryption level.
    fn write(&mut self) -> Vec<Vec<u8>> {
        let mut flights = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let change = self.session.write(&mut bytes);
            if !bytes.is_empty() {
                flights.push(bytes);
            }
            match change {
                Some(KeyChange::Handshake(secrets)) => assert!(self.handshake.replace(secrets).is_none()),
                Some(KeyChange::OneRtt(secrets)) => assert!(self.one_rtt.replace(secrets).is_none()),
                None => return flights,
            }
        }
    }

    fn read(&mut self, flights: &[Vec<u8>]) -> Result<(), TlsError> {
        flights.iter().try_for_each(|bytes| self.session.read(bytes))
    }
}

/// Exchanges flights until neither endpoint writes any more.
fn shake_hands(client: &mut End, server: &mut End) -> Result<(), TlsError> {
    loop {
        let flights = client.write();
        server.read(&flights)?;
        let answers = server.write();
        client.read(&answers)?;
        if flights.is_empty() && answers.is_empty() {
            assert!(!client.session.is_handshaking() && !server.session.is_handshaking());
            return Ok(());
        }
    }
}

fn formats() -> [&'static Format; 2] {
    [Version::V1, Version::V2].map(|version| version.format().unwrap())
}

/// Checks that a packet sealed by one endpoint opens at the other, and that their header protection masks are
/// equal.
#[track_caller]
fn assert_connected(sender: &DirectionKeys, receiver: &DirectionKeys) {
    assert_eq!(sender.header.mask(&[9; 16]), receiver.header.mask(&[9; 16]));
    assert!(opens(&sender.packet, &receiver.packet));
}

fn opens(sender: &PacketKey, receiver: &PacketKey) -> bool {
    let mut packet = [7; 30];
    sender.seal(PathId(1), 3, 10, &mut packet);
    receiver.open(PathId(1), 3, 10, &mut packet).is_ok_and(|len| packet[10..][..len] == [7; 20 - TAG_LEN])
}

#[test]
fn a_full_handshake_connects_both_levels_in_both_versions() {
    let (client, server) = Pair::new().acquaint(Version::V1);
    for format in formats() {
        for (ours, theirs) in [(&client.handshake, &server.handshake), (&client.one_rtt, &server.one_rtt)] {
            let (ours, theirs) = (ours.as_ref().unwrap(), theirs.as_ref().unwrap());
            assert_eq!((ours.suite(), theirs.suite()), (Suite::Aes128Gcm, Suite::Aes128Gcm));
            let (ours, theirs) = (ours.keys(format), theirs.keys(format));
            assert_connected(&ours.local, &theirs.remote);
            assert_connected(&theirs.local, &ours.remote);
            assert!(!opens(&ours.local.packet, &ours.remote.packet), "directions differ");
        }
    }
    let [v1, v2] = formats().map(|format| client.one_rtt.as_ref().unwrap().keys(format));
    assert!(!opens(&v1.local.packet, &v2.local.packet), "versions differ");
    let handshake = client.handshake.unwrap().keys(formats()[0]);
    assert!(!opens(&v1.local.packet, &handshake.local.packet), "levels differ");
}

#[test]
fn what_the_ends_learn_of_each_other() {
    let (client, server) = Pair::new().acquaint(Version::V1);
    let (client, server) = (client.session, server.session);
    assert_eq!(client.peer_parameters(), Some(SERVER_PARAMETERS));
    assert_eq!(server.peer_parameters(), Some(CLIENT_PARAMETERS));
    assert_eq!((client.alpn(), server.alpn()), (Some(&b"test"[..]), Some(&b"test"[..])));
    assert_eq!((client.server_name(), server.server_name()), (None, Some(NAME)));
    assert_eq!(client.peer_certificates().unwrap().len(), 1);
    assert!(server.peer_certificates().is_none());
    assert!(!client.is_resumed() && !server.is_resumed());
    assert_eq!((client.early_data_accepted(), server.early_data_accepted()), (None, Some(false)));

    let mut exported = [[0; 32]; 2];
    client.export_keying_material(&mut exported[0], b"label", Some(b"context")).unwrap();
    server.export_keying_material(&mut exported[1], b"label", Some(b"context")).unwrap();
    assert_eq!(exported[0], exported[1]);
    assert_ne!(exported[0], [0; 32]);
}

#[test]
fn nothing_can_be_exported_before_the_end() {
    let (client, _) = Pair::new().sessions();
    let error = client.session.export_keying_material(&mut [0; 32], b"label", None).unwrap_err();
    assert_eq!((error.kind, error.alert), (TlsErrorKind::Internal, 80));
}

#[test]
fn key_updates_stay_in_step_in_both_versions() {
    for format in formats() {
        let (client, server) = Pair::new().acquaint(Version::V1);
        let (mut client, mut server) = (client.one_rtt.unwrap(), server.one_rtt.unwrap());
        let mut previous = client.keys(format).local.packet;
        for _ in 0..3 {
            let (client_local, client_remote) =
                (client.next_local(format).key(), client.next_remote(format).key());
            let (server_local, server_remote) =
                (server.next_local(format).key(), server.next_remote(format).key());
            assert!(opens(&client_local, &server_remote) && opens(&server_local, &client_remote));
            assert!(!opens(&previous, &server_remote));
            previous = client_local;
        }
    }
}

#[test]
fn a_resumed_session_carries_early_data() {
    for version in [Version::V1, Version::V2] {
        let pair = Pair::new();
        pair.acquaint(version);
        let (mut client, mut server) = pair.sessions_in(version);

        let early = client.session.early_secret().expect("a ticket that allows 0-RTT");
        assert!(client.session.early_secret().is_none(), "handed out once");
        assert_eq!(early.suite(), Suite::Aes128Gcm);
        assert_eq!(client.session.early_data_accepted(), None);
        assert_eq!(client.session.peer_parameters(), Some(SERVER_PARAMETERS), "remembered");
        assert!(server.session.early_secret().is_none());
        assert_eq!(server.session.early_data_accepted(), None);

        server.read(&client.write()).unwrap();
        assert_eq!(server.session.early_data_accepted(), Some(true));
        let theirs = server.session.early_secret().expect("accepted");
        for format in formats() {
            assert_connected(&early.keys(format), &theirs.keys(format));
        }

        client.read(&server.write()).unwrap();
        assert_eq!(client.session.early_data_accepted(), Some(true));
        shake_hands(&mut client, &mut server).unwrap();
        assert!(client.session.is_resumed() && server.session.is_resumed());
        let (ours, theirs) = (client.one_rtt.unwrap(), server.one_rtt.unwrap());
        assert_connected(&ours.keys(formats()[0]).local, &theirs.keys(formats()[0]).remote);
    }
}

#[test]
fn a_server_may_refuse_early_data_and_still_resume() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    server.session.reject_early_data();
    assert!(client.session.early_secret().is_some());
    shake_hands(&mut client, &mut server).unwrap();
    assert!(client.session.is_resumed());
    assert_eq!(client.session.early_data_accepted(), Some(false));
    assert_eq!(server.session.early_data_accepted(), Some(false));
    assert!(server.session.early_secret().is_none(), "the secret exists but must not be used");
}

#[test]
fn a_server_without_early_data_does_not_invite_it() {
    let pair = Pair::with(false, &no_key_log());
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    assert!(client.session.early_secret().is_none());
    shake_hands(&mut client, &mut server).unwrap();
    assert!(client.session.is_resumed());
    assert_eq!(client.session.early_data_accepted(), None);
}

/// Checks that a ticket is accepted only once, so that a replayed ClientHello cannot send early data (RFC
/// 8446 §8).
#[test]
fn a_replayed_client_hello_gets_no_early_data() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    let (_, mut replayed) = pair.sessions();
    let hello = client.write();
    server.read(&hello).unwrap();
    replayed.read(&hello).unwrap();
    assert_eq!(server.session.early_data_accepted(), Some(true));
    assert_eq!(replayed.session.early_data_accepted(), Some(false));
    assert!(replayed.session.early_secret().is_none());
}

/// Checks that a delayed ClientHello cannot send early data (RFC 8446 §8.3).
#[test]
fn a_delayed_client_hello_gets_no_early_data() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    let hello = client.write();
    pair.trust.clock.set(Time::ZERO + Duration::from_secs(3600));
    server.read(&hello).unwrap();
    assert_eq!(server.session.early_data_accepted(), Some(false));
}

/// Checks RFC 9369 §5 for clients: the ticket is not offered.
#[test]
fn a_ticket_is_not_offered_in_another_version() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions_in(Version::V2);
    assert!(client.session.early_secret().is_none());
    shake_hands(&mut client, &mut server).unwrap();
    assert!(!client.session.is_resumed());
    let (client, _) = pair.sessions_in(Version::V1);
    assert_eq!(client.session.peer_parameters(), Some(SERVER_PARAMETERS), "still there for its own version");
}

/// Checks RFC 9369 §5 for servers: the ticket is offered but not accepted.
#[test]
fn a_ticket_is_not_accepted_in_another_version() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, _) = pair.sessions_in(Version::V1);
    let (_, mut server) = pair.sessions_in(Version::V2);
    assert!(client.session.early_secret().is_some());
    shake_hands(&mut client, &mut server).unwrap();
    assert!(!client.session.is_resumed() && !server.session.is_resumed());
    assert_eq!(client.session.early_data_accepted(), Some(false));
}

/// Checks that tickets belong to the negotiated version after compatible negotiation (RFC 9369 §5).
#[test]
fn tickets_follow_a_compatible_upgrade() {
    let pair = Pair::new();
    let (mut client, _) = pair.sessions_in(Version::V1);
    let (_, mut server) = pair.sessions_in(Version::V2);
    client.session.set_version(Version::V2);
    shake_hands(&mut client, &mut server).unwrap();

    let (mut v1, _) = pair.sessions_in(Version::V1);
    assert!(v1.session.early_secret().is_none());
    let (mut client, mut server) = pair.sessions_in(Version::V2);
    assert!(client.session.early_secret().is_some());
    shake_hands(&mut client, &mut server).unwrap();
    assert!(client.session.is_resumed());
    assert_eq!(client.session.early_data_accepted(), Some(true));
}

#[test]
fn stateless_tickets_resume_within_their_version() {
    let pair = Pair::new();
    let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let server = pair.trust.server("test").provider(Arc::new(provider)).ticketer(ticketer);
    let pair = Pair { server: server.build().unwrap(), ..pair };
    pair.acquaint(Version::V2);
    let (mut client, mut server) = pair.sessions_in(Version::V2);
    shake_hands(&mut client, &mut server).unwrap();
    assert!(client.session.is_resumed());

    let (mut client, _) = pair.sessions_in(Version::V2);
    let (_, mut server) = pair.sessions_in(Version::V1);
    shake_hands(&mut client, &mut server).unwrap();
    assert!(!client.session.is_resumed());
}

#[test]
fn every_suite_shakes_hands() {
    use rustls::crypto::aws_lc_rs::cipher_suite;
    for (chosen, suite) in [
        (cipher_suite::TLS13_AES_128_GCM_SHA256, Suite::Aes128Gcm),
        (cipher_suite::TLS13_AES_256_GCM_SHA384, Suite::Aes256Gcm),
        (cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, Suite::ChaCha20Poly1305),
    ] {
        let pair = Pair::new();
        let mut provider = (*deterministic_provider()).clone();
        provider.cipher_suites = vec![chosen];
        let client = pair.trust.client("test").provider(Arc::new(provider)).early_data(true);
        let pair = Pair { client: client.build().unwrap(), ..pair };
        pair.acquaint(Version::V1);
        let (mut client, mut server) = pair.sessions();
        // Early data uses the cipher suite of the resumed session, regardless of the order of preference.
        assert_eq!(client.session.early_secret().unwrap().suite(), suite);
        shake_hands(&mut client, &mut server).unwrap();
        assert_eq!(server.session.suite(), Some(suite));
        assert_retires(&mut server.session, &client.session);
        let (ours, theirs) = (client.one_rtt.unwrap(), server.one_rtt.unwrap());
        assert_connected(&ours.keys(formats()[0]).local, &theirs.keys(formats()[0]).remote);
    }
}

/// Checks that a retired session of a server keeps all facts, exports what its client exports, and reads nothing.
fn assert_retires(server: &mut Session, client: &Session) {
    let facts = |session: &Session| {
        let (alpn, name) = (session.alpn().map(Vec::from), session.server_name().map(str::to_owned));
        let certificates = session.peer_certificates().map(<[_]>::to_vec);
        let parameters = session.peer_parameters().map(Vec::from);
        (
            alpn,
            name,
            certificates,
            parameters,
            session.is_resumed(),
            session.suite(),
            session.is_handshaking(),
        )
    };
    let (before, early) = (facts(server), server.early_data_accepted());
    server.retire();
    assert_eq!((facts(server), server.early_data_accepted()), (before, early));
    for (label, context, len) in [
        (&b"EXPERIMENTAL label"[..], None, 32),
        (b"label", Some(&b""[..]), 1),
        (b"label", Some(b"context"), 48),
        (b"another label", Some(&[7; 300]), 1_000),
    ] {
        let mut exported = [vec![0; len], vec![0; len]];
        client.export_keying_material(&mut exported[0], label, context).unwrap();
        server.export_keying_material(&mut exported[1], label, context).unwrap();
        assert_eq!(exported[0], exported[1], "{label:?}");
    }
    for len in [0, 255 * 48 + 1] {
        let mut out = vec![0; len];
        let errors = [client, &*server]
            .map(|session| session.export_keying_material(&mut out, b"x", None).unwrap_err().kind);
        assert_eq!(errors, [TlsErrorKind::Internal; 2]);
    }
    assert!(server.write(&mut Vec::new()).is_none());
    // A KeyUpdate message (RFC 8446 §4.6.3).
    let error = server.read(&[24, 0, 0, 1, 0]).unwrap_err();
    assert_eq!((error.code(), error.kind), (0x10a, TlsErrorKind::Peer), "RFC 9001 §6");
}

#[test]
fn only_a_server_retires_and_only_after_the_handshake() {
    let (mut client, mut server) = Pair::new().sessions();
    server.session.retire();
    client.session.retire();
    shake_hands(&mut client, &mut server).unwrap();
    client.session.retire();
    // Reading nothing is an error of a retired session alone.
    assert!(client.session.read(&[]).is_ok() && server.session.read(&[]).is_ok());
    server.session.retire();
    assert!(server.session.read(&[]).is_err());
}

/// Checks that alert 120 becomes CRYPTO_ERROR 0x178 (RFC 9001 §8.1).
#[test]
fn no_common_application_protocol() {
    let pair = Pair::new();
    for protocols in [vec!["other"], vec![]] {
        let client = pair.trust.client("test").alpn(protocols);
        let client = Session::client(&client.build().unwrap(), NAME, Vec::new()).unwrap();
        let (_, mut server) = pair.sessions();
        let error = server.read(&End::new(client).write()).unwrap_err();
        assert_eq!((error.alert, error.code()), (120, 0x178));
        assert_eq!(error.kind, TlsErrorKind::ApplicationProtocol);
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_recognizable() {
    let pair = Pair::new();
    let client = |roots, name| {
        let config = pair.trust.client("test").roots(roots).build();
        End::new(Session::client(&config.unwrap(), name, Vec::new()).unwrap())
    };
    let roots = |seed, name| Identity::new(seed, &[name]).unwrap().roots().unwrap();
    // The alerts are unknown_ca, decrypt_error for a root with the same name but another key, and
    // bad_certificate.
    for (mut client, alert) in [
        (client(roots(8, "stranger.test"), NAME), 48),
        (client(roots(8, NAME), NAME), 51),
        (client(roots(1, NAME), "other.test"), 42),
    ] {
        let (_, mut server) = pair.sessions();
        let error = shake_hands(&mut client, &mut server).unwrap_err();
        assert_eq!((error.kind, error.alert), (TlsErrorKind::Certificate, alert), "{error}");
    }
}

/// Checks that the configured clock decides whether a certificate is valid, not the system clock. The
/// certificate below expired at the beginning of 2024.
#[test]
fn certificates_are_judged_by_the_given_clock() {
    let pair = Pair::new();
    let key = Identity::new(1, &[NAME]).unwrap().key;
    let mut params = rcgen::CertificateParams::new([NAME.to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2024, 1, 1);
    let certificate = params.self_signed(&rcgen::KeyPair::try_from(&key).unwrap()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let client = pair.trust.client("test").roots(roots).remembered_servers(0);
    let server = pair.trust.server("test").certificate(vec![certificate.der().clone()], key);
    let pair = Pair { client: client.build().unwrap(), server: server.build().unwrap(), ..pair };
    pair.acquaint(Version::V1);
    pair.trust.clock.set(Time::ZERO + Duration::from_secs(60 * 86_400));
    let (mut client, mut server) = pair.sessions();
    let error = shake_hands(&mut client, &mut server).unwrap_err();
    assert_eq!((error.kind, error.alert), (TlsErrorKind::Certificate, 45), "{error}");
}

#[test]
fn clients_can_be_asked_for_certificates() {
    let pair = Pair::new();
    let person = Identity::new(9, &["person"]).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(person.roots().unwrap()),
        deterministic_provider(),
    );
    let server = pair.trust.server("test").client_verifier(verifier.build().unwrap());
    let client = pair.trust.client("test").certificate(vec![person.certificate.clone()], person.key);
    let mutual = Pair { client: client.build().unwrap(), server: server.build().unwrap(), ..pair };
    let (_, server) = mutual.acquaint(Version::V1);
    assert_eq!(server.session.peer_certificates(), Some(&[person.certificate][..]));

    let anonymous = Pair { client: Pair::new().client, ..mutual };
    let (mut client, mut server) = anonymous.sessions();
    let error = shake_hands(&mut client, &mut server).unwrap_err();
    assert_eq!((error.kind, error.alert), (TlsErrorKind::Certificate, 116));
}

/// Checks that a change of any single bit makes the handshake fail. The flights of both endpoints are
/// covered.
#[test]
fn tampered_handshakes_fail() {
    let pair = Pair::new();
    let hello_len = pair.sessions().0.write()[0].len();
    for bit in (0..hello_len * 8).step_by(11) {
        let (mut client, mut server) = pair.sessions();
        let mut hello = client.write();
        hello[0][bit / 8] ^= 1 << (bit % 8);
        // With a larger length, the server waits for more bytes. The handshake does not complete either.
        let done = server.read(&hello).and_then(|()| client.read(&server.write())).is_ok();
        assert!(!done || client.session.is_handshaking(), "bit {bit} of the ClientHello");
    }
    for level in 0..2 {
        let (mut client, mut server) = pair.sessions();
        server.read(&client.write()).unwrap();
        let flights = server.write();
        for bit in (0..flights[level].len() * 8).step_by(7) {
            let (mut client, mut server) = pair.sessions();
            server.read(&client.write()).unwrap();
            let mut flights = server.write();
            flights[level][bit / 8] ^= 1 << (bit % 8);
            let done = client.read(&flights).is_ok();
            assert!(!done || client.session.is_handshaking(), "bit {bit} of level {level}");
        }
    }
}

/// Checks that a TLS KeyUpdate message is unexpected_message, CRYPTO_ERROR 0x10a: QUIC updates keys without
/// TLS (RFC 9001 §6).
#[test]
fn a_tls_key_update_is_refused() {
    let (mut client, mut server) = Pair::new().acquaint(Version::V1);
    for end in [&mut client, &mut server] {
        assert_eq!(end.session.read(&[24, 0, 0, 1, 0]).unwrap_err().code(), 0x10a);
    }
}

/// Checks that EndOfEarlyData, which QUIC does not use, is CRYPTO_ERROR 0x10a both during 0-RTT and
/// afterwards (RFC 9001 §8.3).
#[test]
fn end_of_early_data_is_refused() {
    let pair = Pair::new();
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    server.read(&client.write()).unwrap();
    assert_eq!(server.session.early_data_accepted(), Some(true));
    assert_eq!(server.session.read(&[5, 0, 0, 0]).unwrap_err().code(), 0x10a);

    let (_, mut server) = pair.acquaint(Version::V1);
    assert_eq!(server.session.read(&[5, 0, 0, 0]).unwrap_err().code(), 0x10a);
}

/// Checks that a message with an excessive length is rejected at its header, so that nothing is buffered for
/// it.
#[test]
fn a_message_of_sixteen_megabytes_is_not_waited_for() {
    let (mut client, mut server) = Pair::new().sessions();
    client.write();
    for (end, kind) in [(&mut client, 2), (&mut server, 1)] {
        let error = end.session.read(&[kind, 0xff, 0xff, 0xff]).unwrap_err();
        assert_eq!(error.kind, TlsErrorKind::Peer, "{error}");
    }
}

/// Checks a HelloRetryRequest, with which the server requests another key share. Both ClientHellos belong to
/// the Initial level (RFC 8446 §4.1.4).
#[test]
fn a_hello_retry_request_costs_a_round_trip_only() {
    use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
    let groups = |kx_groups| Arc::new(rustls::crypto::CryptoProvider { kx_groups, ..default_provider() });
    let pair = Pair::new();
    let client = pair.trust.client("test").provider(groups(vec![kx_group::X25519, kx_group::SECP256R1]));
    let server = pair.trust.server("test").provider(groups(vec![kx_group::SECP256R1]));
    let pair = Pair { client: client.build().unwrap(), server: server.build().unwrap(), ..pair };
    let (mut client, mut server) = pair.sessions();
    server.read(&client.write()).unwrap();
    let retry = server.write();
    assert_eq!((retry.len(), server.handshake.is_some()), (1, false), "the level stays");
    client.read(&retry).unwrap();
    shake_hands(&mut client, &mut server).unwrap();
    let (ours, theirs) = (client.one_rtt.unwrap(), server.one_rtt.unwrap());
    assert_connected(&ours.keys(formats()[0]).local, &theirs.keys(formats()[0]).remote);
}

#[test]
fn flights_may_arrive_byte_by_byte() {
    let pair = Pair::new();
    let (mut client, mut server) = pair.sessions();
    for _ in 0..3 {
        for bytes in client.write() {
            bytes.chunks(1).for_each(|byte| server.session.read(byte).unwrap());
        }
        for bytes in server.write() {
            bytes.chunks(1).for_each(|byte| client.session.read(byte).unwrap());
        }
    }
    assert!(!client.session.is_handshaking() && !server.session.is_handshaking());
}

#[test]
fn a_real_client_hello_can_be_read_before_a_session_exists() {
    let hello = Pair::new().sessions().0.write().concat();
    let ClientHello::Parameters(offer) = client_hello_parameters(&hello) else { panic!("a whole hello") };
    assert_eq!((offer.parameters, offer.server_name), (CLIENT_PARAMETERS, Some(NAME)));
    assert!(offer.alpn().eq([&b"h3"[..], b"test"]));
}

/// Key log that stores the labels.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<String>>);

impl KeyLog for Memory {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        assert_eq!((client_random.len(), secret.len()), (32, 32));
        self.0.lock().unwrap().push(label.to_owned());
    }
}

#[test]
fn the_configured_key_log_still_sees_everything() {
    let memory = Arc::new(Memory::default());
    let pair = Pair::with(true, &(Arc::clone(&memory) as _));
    pair.acquaint(Version::V1);
    let (mut client, mut server) = pair.sessions();
    shake_hands(&mut client, &mut server).unwrap();
    let mut labels = std::mem::take(&mut *memory.0.lock().unwrap());
    labels.sort_unstable();
    let twice = |label| [label, label];
    let mut expected = vec!["CLIENT_EARLY_TRAFFIC_SECRET"];
    for label in [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
    ] {
        expected.extend(twice(label));
    }
    assert_eq!(labels, expected);
}

#[test]
fn configurations_that_cannot_work_say_why() {
    let identity = || Identity::new(1, &[NAME]).unwrap();
    let server = || ServerConfig::builder().certificate(vec![identity().certificate], identity().key);
    let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    assert_eq!(ClientConfig::builder().build().unwrap_err(), ConfigError::NoTrust);
    assert_eq!(ServerConfig::builder().build().unwrap_err(), ConfigError::NoCertificate);
    assert_eq!(
        server().early_data(true).ticketer(ticketer).build().unwrap_err(),
        ConfigError::EarlyDataWithTicketer
    );
    let mut provider = (*deterministic_provider()).clone();
    provider.cipher_suites.clear();
    let provider = Arc::new(provider);
    assert_eq!(server().provider(Arc::clone(&provider)).build().unwrap_err(), ConfigError::Suites);
    let client = ClientConfig::builder().roots(identity().roots().unwrap());
    assert_eq!(client.provider(provider).build().unwrap_err(), ConfigError::Suites);
    assert_eq!(
        Session::client(&Pair::new().client, "no host name", Vec::new()).unwrap_err(),
        ConfigError::ServerName("no host name".to_owned())
    );
}

#[test]
fn resumption_can_be_turned_off() {
    let pair = Pair::new();
    let client = pair.trust.client("test").remembered_servers(0).build().unwrap();
    let server = pair.trust.server("test").remembered_sessions(0).build().unwrap();
    for pair in [Pair { client, ..Pair::new() }, Pair { server, ..Pair::new() }] {
        for _ in 0..2 {
            assert!(!pair.acquaint(Version::V1).0.session.is_resumed());
        }
    }
}

/// Returns a server's rustls configuration, created without [`ServerConfig::builder`].
fn server_of_rustls(trust: &Trust) -> rustls::ServerConfig {
    let builder =
        rustls::ServerConfig::builder_with_details(deterministic_provider(), Arc::clone(&trust.clock) as _)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth();
    let chain = vec![trust.identity.certificate.clone()];
    let mut config = builder.with_single_cert(chain, trust.identity.key.clone_key()).unwrap();
    config.alpn_protocols = vec![b"test".to_vec()];
    config
}

#[test]
fn a_wrapped_rustls_configuration_works_as_it_is() {
    let pair = Pair::new();
    let (provider, clock) = (deterministic_provider(), Arc::clone(&pair.trust.clock));
    let mut inner = rustls::ClientConfig::builder_with_details(provider, clock as _)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(pair.trust.identity.roots().unwrap())
        .with_no_client_auth();
    inner.alpn_protocols = vec![b"test".to_vec()];
    inner.resumption = rustls::client::Resumption::in_memory_sessions(4);
    let client = ClientConfig::try_from(Arc::new(inner)).unwrap();
    let server = ServerConfig::try_from(Arc::new(server_of_rustls(&pair.trust))).unwrap();
    let pair = Pair { client, server, ..pair };
    pair.acquaint(Version::V1);
    assert!(pair.acquaint(Version::V1).0.session.is_resumed());
}

/// QUIC permits only two values of max_early_data_size.
#[test]
fn a_wrapped_rustls_configuration_is_checked() {
    let mut inner = server_of_rustls(&Trust::new(NAME));
    inner.max_early_data_size = 1000;
    assert!(matches!(ServerConfig::try_from(Arc::new(inner)), Err(ConfigError::Tls(_))));
}

#[test]
fn sessions_cross_threads() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&Pair::new().sessions().0.session);
}

/// Replaces the only occurrence of `old` in the flights.
fn replace(flights: &mut [Vec<u8>], old: &[u8], new: &[u8]) {
    let mut found = 0;
    for flight in flights {
        while let Some(at) = flight.windows(old.len()).position(|window| window == old) {
            flight.splice(at..at + old.len(), new.iter().copied());
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn a_client_offers_tls_1_3_alone() {
    let hello = Pair::new().sessions().0.write().concat();
    // supported_versions with one version.
    let offers = hello.windows(7).filter(|bytes| *bytes == [0, 43, 0, 3, 2, 3, 4]).count();
    assert_eq!(offers, 1);
}

#[test]
fn an_older_tls_is_refused() {
    let pair = Pair::new();
    let (mut client, mut server) = pair.sessions();
    let mut hello = client.write();
    replace(&mut hello, &[0, 43, 0, 3, 2, 3, 4], &[0, 43, 0, 3, 2, 3, 3]);
    assert_eq!(server.read(&hello).unwrap_err().alert, 70, "protocol_version");
    let (mut client, mut server) = pair.sessions();
    server.read(&client.write()).unwrap();
    let mut flights = server.write();
    replace(&mut flights[..1], &[0, 43, 0, 2, 3, 4], &[0, 43, 0, 2, 3, 3]);
    assert_eq!(client.read(&flights[..1]).unwrap_err().kind, TlsErrorKind::Peer);
    assert!(client.handshake.is_none());
}

#[test]
fn after_the_handshake_a_server_writes_tickets_only() {
    let pair = Pair::new();
    let (mut client, mut server) = pair.sessions();
    server.read(&client.write()).unwrap();
    client.read(&server.write()).unwrap();
    server.read(&client.write()).unwrap();
    let written = server.write().concat();
    let mut rest = &written[..];
    let mut types = Vec::new();
    while let [kind, a, b, c, tail @ ..] = rest {
        types.push(*kind);
        rest = &tail[u32::from_be_bytes([0, *a, *b, *c]) as usize..];
    }
    assert!(!types.is_empty() && types.iter().all(|kind| *kind == 4), "{types:?}");
}

#[test]
fn a_suite_without_header_protection_is_refused() {
    use rustls::crypto::CipherSuiteCommon;
    use rustls::{CipherSuite, SupportedCipherSuite, Tls13CipherSuite};
    let mut provider = (*deterministic_provider()).clone();
    let gcm = provider.cipher_suites.iter().find_map(SupportedCipherSuite::tls13).unwrap();
    let common = CipherSuiteCommon { suite: CipherSuite::TLS13_AES_128_CCM_8_SHA256, ..gcm.common };
    let ccm = Tls13CipherSuite { common, ..*gcm };
    let identity = || Identity::new(1, &[NAME]).unwrap();
    let builders = |provider: &Arc<rustls::crypto::CryptoProvider>| {
        let server = ServerConfig::builder().certificate(vec![identity().certificate], identity().key);
        let client = ClientConfig::builder().roots(identity().roots().unwrap());
        let server = server.provider(Arc::clone(provider)).build().err();
        (server, client.provider(Arc::clone(provider)).build().err())
    };
    assert_eq!(builders(&Arc::new(provider.clone())), (None, None));
    provider.cipher_suites.push(SupportedCipherSuite::Tls13(Box::leak(Box::new(ccm))));
    assert_eq!(builders(&Arc::new(provider)), (Some(ConfigError::Suites), Some(ConfigError::Suites)));
}

#[test]
fn unknown_suites_are_passed_over() {
    let (mut client, mut server) = Pair::new().sessions();
    let mut hello = client.write().concat();
    // Type, length, version, random and the length of the session ID precede the list of suites.
    let list = 4 + 2 + 32 + 1 + usize::from(hello[38]);
    let [suites, message] = [[hello[list], hello[list + 1]], [hello[2], hello[3]]].map(u16::from_be_bytes);
    hello[list..list + 2].copy_from_slice(&(suites + 2).to_be_bytes());
    hello[2..4].copy_from_slice(&(message + 2).to_be_bytes());
    hello.splice(list + 2..list + 2, [0x13, 0x05]);
    assert!(matches!(client_hello_parameters(&hello), ClientHello::Parameters(_)));
    server.session.read(&hello).unwrap();
    assert_eq!(server.session.suite(), Some(Suite::Aes128Gcm));
}

#[test]
fn no_transport_parameters_over_tcp() {
    let hello = |tls: Arc<rustls::ClientConfig>| {
        let mut connection = rustls::ClientConnection::new(tls, NAME.try_into().unwrap()).unwrap();
        let mut record = Vec::new();
        connection.write_tls(&mut record).unwrap();
        record.split_off(5)
    };
    let bytes = hello(Pair::new().client.over_tcp(["h2"]));
    let parsed = client_hello_parameters(&bytes);
    assert!(matches!(parsed, ClientHello::Malformed { alert: 109 }), "missing_extension");
}

#[test]
fn no_compatibility_mode() {
    let hello = Pair::new().sessions().0.write().concat();
    assert_eq!(hello[38], 0, "the length of legacy_session_id");
}

#[test]
fn an_application_protocol_belongs_to_a_ticket() {
    let pair = Pair::new();
    let (client, _) = pair.acquaint(Version::V1);
    assert!(!client.session.has_other_alpn(), "nothing is resumed");
    assert_eq!(client.session.alpn(), Some(&b"test"[..]));
    let (client, _) = pair.acquaint(Version::V1);
    assert!(client.session.is_resumed() && !client.session.has_other_alpn());
    let server = pair.trust.server("h3").early_data(true).build().unwrap();
    let other = Pair { server, client: pair.client.clone(), trust: Trust::new(NAME) };
    let (client, _) = other.acquaint(Version::V1);
    assert!(client.session.has_other_alpn());
    assert_eq!(
        (client.session.alpn(), client.session.early_data_accepted()),
        (Some(&b"h3"[..]), Some(false))
    );
    // Its tickets are for the new protocol.
    let (client, _) = other.acquaint(Version::V1);
    assert!(client.session.is_resumed() && !client.session.has_other_alpn());
}

#[test]
fn tickets_of_a_protocol_that_the_server_has_given_up_are_dropped_together() {
    let pair = Pair::new();
    let server = pair.trust.server("h3").early_data(true).build().unwrap();
    let before = Pair { server, client: pair.client.clone(), trust: Trust::new(NAME) };
    before.acquaint(Version::V1);
    // The client prefers h3, of which it has several tickets. With each of them, a connection with early data fails.
    let (client, _) = pair.acquaint(Version::V1);
    assert!(client.session.has_other_alpn());
    let (client, _) = pair.acquaint(Version::V1);
    assert!(client.session.is_resumed() && !client.session.has_other_alpn());
}

proptest! {
    #[test]
    fn arbitrary_handshake_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut client, mut server) = Pair::new().sessions();
        client.write();
        let _ = client.session.read(&bytes);
        let _ = server.session.read(&bytes);
        let _ = (client.write(), server.write());
    }
}
