//! Connections over the loopback interface: how they begin, migrate and end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use anabranch::{
    AckConfig, ConnectError, Connecting, Connection, ConnectionError, Endpoint, EndpointConfig,
    EndpointError, RetryPolicy, SelfSigned, TransportConfig, TransportErrorCode, VarInt, Version, config,
};
use anabranch_testkit::endpoints::{ALPN, PATIENCE, Pair, connect, connected, echo, loopback, serve, within};
use anabranch_testkit::pattern;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

fn connecting(client: &Endpoint, server: &Endpoint) -> Connecting {
    client.connect(server.local_addr().unwrap(), "localhost").unwrap()
}

#[tokio::test]
async fn the_handshake_tells_who_is_there() {
    let pair = Pair::new();
    let it = connected(&pair).await;
    let data = it.ours.handshake_data();
    assert_eq!(data.protocol.as_deref(), Some(b"test".as_slice()));
    assert!(!data.resumed);
    assert_eq!(it.theirs.handshake_data().server_name.as_deref(), Some("localhost"));
    assert_eq!(it.ours.peer_certificates().unwrap()[0], *pair.identity.certificate());
    assert_eq!(it.ours.remote_address(), it.server.local_addr().unwrap());
    let (mut a, mut b) = ([0; 32], [0; 32]);
    it.ours.export_keying_material(&mut a, b"label", b"context").unwrap();
    it.theirs.export_keying_material(&mut b, b"label", b"context").unwrap();
    assert_eq!(a, b);
    it.ours.export_keying_material(&mut b, b"another label", b"context").unwrap();
    assert_ne!(a, b);
    within(it.ours.confirmed()).await.unwrap();
    assert!(it.ours.rtt().unwrap() > Duration::ZERO);
}

#[tokio::test]
async fn close_codes_arrive() {
    let it = connected(&Pair::new()).await;
    it.ours.close(VarInt::from_u32(42), b"enough");
    assert_eq!(it.ours.close_reason(), Some(ConnectionError::LocallyClosed));
    let reason = Bytes::from_static(b"enough");
    assert_eq!(
        within(it.theirs.closed()).await,
        ConnectionError::PeerApplication { code: VarInt::from_u32(42), reason }
    );
    assert!(it.ours.open_bi().await.is_err());
    assert!(it.theirs.accept_bi().await.is_err());
}

#[tokio::test]
async fn the_last_handle_closes_the_connection() {
    let it = connected(&Pair::new()).await;
    let stream = it.ours.open_uni().await.unwrap();
    drop(it.ours);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(it.theirs.close_reason(), None, "a stream is a handle as well");
    drop(stream);
    let reason = Bytes::new();
    assert_eq!(
        within(it.theirs.closed()).await,
        ConnectionError::PeerApplication { code: VarInt::from_u32(0), reason }
    );
}

#[tokio::test]
async fn endpoints_close_and_become_idle() {
    let it = connected(&Pair::new()).await;
    let accepting = tokio::spawn({
        let server = it.server.clone();
        async move { server.accept().await.is_none() }
    });
    it.server.close(VarInt::from_u32(7), b"maintenance");
    assert!(within(accepting).await.unwrap(), "accept ends");
    assert!(matches!(
        within(it.ours.closed()).await,
        ConnectionError::PeerApplication { code, .. } if code == 7
    ));
    within(it.server.wait_idle()).await;
    within(it.client.wait_idle()).await;
    assert_eq!(it.server.open_connections(), 0);
    // No more clients are accepted.
    let refused = within(connecting(&it.client, &it.server)).await.unwrap_err();
    let ConnectionError::PeerTransport(error) = refused else { panic!("{refused}") };
    assert_eq!(error.code, TransportErrorCode::CONNECTION_REFUSED);
    it.client.close(VarInt::from_u32(0), b"");
    let address = it.server.local_addr().unwrap();
    assert!(matches!(it.client.connect(address, "localhost"), Err(ConnectError::EndpointClosed)));
}

/// An application that must end quickly need not wait for the closing period: it is enough to send
/// CONNECTION_CLOSE.
#[tokio::test]
async fn a_close_is_sent_long_before_its_period_is_over() {
    // With this maximum ACK delay, a probe timeout is at least 5 s.
    let ack = AckConfig::default().with_max_delay(Duration::from_secs(5));
    let it = connected(&Pair::with_transport(TransportConfig::default().with_ack(ack))).await;
    let waiting = tokio::spawn({
        let client = it.client.clone();
        async move { client.wait_close_sent().await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished(), "a connection is open");
    it.ours.close(VarInt::from_u32(7), b"done");
    within(waiting).await.unwrap();
    assert_eq!(it.client.open_connections(), 1, "its state is kept for three probe timeouts");
    assert!(matches!(
        within(it.theirs.closed()).await,
        ConnectionError::PeerApplication { code, .. } if code == 7
    ));
    within(it.client.wait_close_sent()).await;
}

#[tokio::test]
async fn connections_that_cannot_even_be_tried() {
    let pair = Pair::new();
    let client = Endpoint::client(loopback()).unwrap();
    let to = |address: &str| client.connect_with(&pair.client, address.parse().unwrap(), "localhost");
    assert!(matches!(client.connect(loopback(), "localhost"), Err(ConnectError::NoClientConfig)));
    assert!(matches!(to("127.0.0.1:0"), Err(ConnectError::InvalidRemoteAddress(_))));
    assert!(matches!(to("[::1]:4433"), Err(ConnectError::InvalidRemoteAddress(_))));
    let bad_name = client.connect_with(&pair.client, "127.0.0.1:4433".parse().unwrap(), "no name");
    assert!(matches!(bad_name, Err(ConnectError::Core(_))));
    assert_eq!(client.open_connections(), 0, "nothing is left of them");
}

#[tokio::test]
async fn strangers_are_not_trusted() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let stranger = SelfSigned::new(["localhost"]).unwrap();
    let trusting_another = config::client(stranger.roots().unwrap(), ALPN).unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let ours = client.connect_with(&trusting_another, server.local_addr().unwrap(), "localhost").unwrap();
    let (ours, theirs) = within(async { tokio::join!(ours, accepting) }).await;
    assert!(ours.unwrap_err().is_certificate());
    let theirs = theirs.unwrap_err();
    assert!(matches!(theirs, ConnectionError::PeerTransport(_)) && theirs.is_certificate(), "{theirs}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let config = config::client(pair.identity.roots().unwrap(), ALPN).unwrap();
    for (name, trusted) in [("localhost", true), ("other.test", false)] {
        let accepting = async { server.accept().await.unwrap().await };
        let ours = client.connect_with(&config, server.local_addr().unwrap(), name).unwrap();
        let (ours, theirs) = within(async { tokio::join!(ours, accepting) }).await;
        assert_eq!(ours.is_ok(), trusted, "{name}");
        if let (Err(ours), Err(theirs)) = (ours, theirs) {
            assert!(ours.is_certificate() && theirs.is_certificate(), "{ours} {theirs}");
        }
    }
}

#[tokio::test]
async fn no_protocol_in_common() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let other = config::client(pair.identity.roots().unwrap(), ["another"]).unwrap();
    let ours = client.connect_with(&other, server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (ours, theirs) = within(async { tokio::join!(ours, accepting) }).await;
    // The code is that of the alert no_application_protocol, 120 (RFC 7301 §3.2).
    let ConnectionError::PeerTransport(error) = ours.unwrap_err() else { panic!("not the server's doing") };
    assert_eq!(error.code, TransportErrorCode::crypto(120));
    assert!(matches!(theirs.unwrap_err(), ConnectionError::Transport(_)));
}

#[tokio::test]
async fn clients_can_be_accepted_after_the_last_handle_is_gone() {
    let (client, server) = Pair::new().endpoints();
    let ours = connecting(&client, &server);
    let incoming = within(server.accept()).await.unwrap();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (ours, theirs) = within(async { tokio::join!(ours, incoming) }).await;
    serve(theirs.unwrap());
    echo(&ours.unwrap(), b"still there").await;
}

/// If the last handle of an endpoint is dropped, the endpoint and its port stay open while a client is
/// neither accepted nor refused.
#[tokio::test]
async fn dealing_with_the_last_client_ends_the_endpoint() {
    let (client, server) = Pair::new().endpoints();
    let address = server.local_addr().unwrap();
    let _ours = connecting(&client, &server);
    let incoming = within(server.accept()).await.unwrap();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(UdpSocket::bind(address).is_err(), "the endpoint waits");
    incoming.ignore();
    within(async {
        while UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn servers_recognize_addresses_by_tokens() {
    let pair = Pair::new();
    let (mut client, server) = pair.endpoints();
    for (round, known) in [false, true, true].into_iter().enumerate() {
        if round == 2 {
            // The tokens are passed to another endpoint, as after a restart.
            let tokens = client.address_tokens();
            client = pair.client();
            tokens.into_iter().for_each(|token| client.add_address_token(token));
        }
        let ours = connecting(&client, &server);
        let incoming = within(server.accept()).await.unwrap();
        assert_eq!((incoming.remote_address_validated(), incoming.may_retry()), (known, true));
        let (ours, theirs) = within(async { tokio::join!(ours, incoming) }).await;
        let ours = ours.unwrap();
        serve(theirs.unwrap());
        within(ours.confirmed()).await.unwrap();
        // The token may arrive after the packet that confirms the handshake.
        echo(&ours, b"time for a token").await;
    }
}

#[tokio::test]
async fn closed_endpoints_accept_nobody() {
    let (client, server) = Pair::new().endpoints();
    let ours = connecting(&client, &server);
    let incoming = within(server.accept()).await.unwrap();
    server.close(VarInt::from_u32(0), b"");
    assert!(within(incoming.into_future()).await.is_err());
    assert!(within(ours).await.is_err(), "the client is refused");
}

#[tokio::test]
async fn servers_refuse_and_ignore() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let ours = connecting(&client, &server);
    within(server.accept()).await.unwrap().refuse();
    let ConnectionError::PeerTransport(error) = within(ours).await.unwrap_err() else {
        panic!("not refused")
    };
    assert_eq!(error.code, TransportErrorCode::CONNECTION_REFUSED);

    let ours = connecting(&client, &server);
    drop(within(server.accept()).await.unwrap());
    assert!(within(ours).await.is_err(), "dropped is refused");

    let ours = connecting(&client, &server);
    within(server.accept()).await.unwrap().ignore();
    // The client sends its Initial again, and is then accepted.
    let again = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, _theirs) = within(async { tokio::join!(ours, again) }).await;
    ours.unwrap();
}

#[tokio::test]
async fn a_retry_proves_the_address() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let ours = connecting(&client, &server);
    let asked = async {
        let first = server.accept().await.unwrap();
        assert!(first.may_retry() && !first.remote_address_validated());
        first.retry().unwrap();
        let second = server.accept().await.unwrap();
        assert!(second.remote_address_validated());
        let second = second.retry().unwrap_err();
        second.await.unwrap()
    };
    let (ours, theirs) = within(async { tokio::join!(ours, asked) }).await;
    serve(theirs);
    echo(&ours.unwrap(), b"after a retry").await;
}

#[tokio::test]
async fn a_retry_by_policy() {
    let mut pair = Pair::new();
    pair.server = pair.server.with_retry(RetryPolicy::Always);
    let (client, server) = pair.endpoints();
    let ours = connecting(&client, &server);
    let accepting = async {
        let incoming = server.accept().await.unwrap();
        assert!(incoming.remote_address_validated());
        incoming.await.unwrap()
    };
    let (ours, _theirs) = within(async { tokio::join!(ours, accepting) }).await;
    ours.unwrap();
}

/// Connects once, so that the client stores a session of the server, and then again with early data.
async fn early_data(server: &Endpoint, client: &Endpoint) -> (bool, Connection) {
    let (ours, theirs) = connect(client, server).await;
    serve(theirs);
    echo(&ours, b"first").await;
    ours.close(VarInt::from_u32(0), b"");
    let (again, accepted) = connecting(client, server).into_0rtt().expect("the server is remembered");
    let (mut send, mut receive) = again.open_bi().await.unwrap();
    let data = pattern(3_000);
    send.write_all(&data).await.unwrap();
    send.finish().unwrap();
    serve(within(async { server.accept().await.unwrap().await }).await.unwrap());
    assert!(within(receive.read_to_end(1 << 20)).await.unwrap() == data);
    (within(accepted).await, again)
}

/// On a busy host the handshake may be complete before the application asks for early data.
#[tokio::test]
async fn early_data_may_be_asked_for_late() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let (ours, theirs) = connect(&client, &server).await;
    serve(theirs);
    echo(&ours, b"first").await;
    ours.close(VarInt::ZERO, b"");
    let second = connecting(&client, &server);
    // The server's handshake is complete when it has received the client's last flight.
    let theirs = within(async { server.accept().await.unwrap().await }).await.unwrap();
    within(theirs.handshake_complete()).await.unwrap();
    let (again, accepted) = second.into_0rtt().expect("the server is remembered");
    assert!(within(accepted).await);
    serve(theirs);
    echo(&again, b"again").await;
}

#[tokio::test]
async fn early_data_is_accepted() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let fresh = connecting(&client, &server);
    assert!(fresh.into_0rtt().is_err(), "nothing is remembered yet");
    drop(within(server.accept()).await.unwrap());
    let (accepted, again) = early_data(&server, &client).await;
    assert!(accepted);
    assert!(again.handshake_data().resumed);
}

/// Another server with the same certificate cannot use the ticket. The data is sent again automatically.
#[tokio::test]
async fn rejected_early_data_is_sent_again() {
    let pair = Pair::new();
    let (client, first) = pair.endpoints();
    let (ours, theirs) = connect(&client, &first).await;
    serve(theirs);
    echo(&ours, b"first").await;
    ours.close(VarInt::from_u32(0), b"");
    let second = Endpoint::server(pair.another_server(), loopback()).unwrap();
    let (again, accepted) = connecting(&client, &second).into_0rtt().expect("the name is remembered");
    let (mut send, mut receive) = again.open_bi().await.unwrap();
    let data = pattern(3_000);
    send.write_all(&data).await.unwrap();
    send.finish().unwrap();
    serve(within(async { second.accept().await.unwrap().await }).await.unwrap());
    assert!(within(receive.read_to_end(1 << 20)).await.unwrap() == data);
    assert!(!within(accepted).await);
    assert!(!again.handshake_data().resumed);
}

#[tokio::test]
async fn sessions_are_resumed() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    for round in 0..3 {
        let (ours, theirs) = connect(&client, &server).await;
        assert_eq!(ours.handshake_data().resumed, round > 0, "round {round}");
        serve(theirs);
        echo(&ours, b"x").await;
    }
}

#[tokio::test]
async fn keys_are_updated_under_load() {
    let it = connected(&Pair::new()).await;
    serve(it.theirs.clone());
    within(it.ours.confirmed()).await.unwrap();
    for i in 1..=3_u64 {
        it.ours.update_keys();
        let deadline = Instant::now() + PATIENCE;
        while it.ours.stats().key_updates < i {
            echo(&it.ours, &pattern(50_000)).await;
            assert!(Instant::now() < deadline, "no key update {i}");
            it.ours.update_keys();
        }
    }
    // The server updates its keys on receiving the first packet with the newest keys.
    echo(&it.ours, b"reachable").await;
    assert!(it.theirs.stats().key_updates >= 3);
}

#[tokio::test]
async fn a_client_that_is_rebound_goes_on() {
    let it = connected(&Pair::new()).await;
    serve(it.theirs.clone());
    echo(&it.ours, b"here").await;
    within(it.ours.confirmed()).await.unwrap();
    let before = it.theirs.remote_address();
    it.client.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
    echo(&it.ours, b"there").await;
    assert_eq!(it.theirs.remote_address(), it.client.local_addr().unwrap());
    assert_ne!(it.theirs.remote_address(), before);
    echo(&it.ours, &pattern(500_000)).await;
}

/// Moves a client to another socket while data arrives, and checks the address that both endpoints report.
async fn migrate(pair: &Pair, address: &str) {
    let server = Endpoint::server(pair.server.clone(), loopback()).unwrap();
    let mut client = Endpoint::client(address.parse().unwrap()).unwrap();
    client.set_default_client_config(pair.client.clone());
    let (ours, theirs) = connect(&client, &server).await;
    serve(theirs.clone());
    within(ours.confirmed()).await.unwrap();
    echo(&ours, b"here").await;
    let other = client.add_socket(address.parse().unwrap()).unwrap();
    ours.migrate(other).unwrap();
    let there = |address: Option<std::net::SocketAddr>| address.is_some_and(|a| a.port() == other.port());
    let deadline = Instant::now() + PATIENCE;
    while !there(ours.local_address()) || !there(Some(theirs.remote_address())) {
        echo(&ours, &pattern(100_000)).await;
        assert!(Instant::now() < deadline, "no migration");
    }
    // The connection stays at the new address, although packets to the old socket may still arrive.
    for _ in 0..20 {
        echo(&ours, &pattern(100_000)).await;
        assert!(there(ours.local_address()) && there(Some(theirs.remote_address())));
    }
    assert!(theirs.migrate(loopback()).is_err(), "servers do not migrate");
}

#[tokio::test]
async fn a_client_migrates() {
    migrate(&Pair::new(), "127.0.0.1:0").await;
}

#[tokio::test]
async fn a_client_on_wildcard_addresses_migrates() {
    migrate(&Pair::new(), "0.0.0.0:0").await;
}

#[tokio::test]
async fn silence_ends_a_connection() {
    let idle = Duration::from_millis(300);
    let transport = TransportConfig::default().with_max_idle_timeout(idle);
    let it = connected(&Pair::with_transport(transport)).await;
    let begin = Instant::now();
    assert!(matches!(within(it.ours.closed()).await, ConnectionError::TimedOut(_)));
    assert!(matches!(within(it.theirs.closed()).await, ConnectionError::TimedOut(_)));
    assert!(begin.elapsed() >= idle - Duration::from_millis(100), "{:?}", begin.elapsed());
    within(it.server.wait_idle()).await;
}

#[tokio::test]
async fn keep_alive_breaks_the_silence() {
    let transport = TransportConfig::default()
        .with_max_idle_timeout(Duration::from_millis(300))
        .with_keep_alive(Duration::from_millis(100));
    let it = connected(&Pair::with_transport(transport)).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!((it.ours.close_reason(), it.theirs.close_reason()), (None, None));
}

#[tokio::test]
async fn nobody_there_is_a_timeout() {
    let silent = UdpSocket::bind(loopback()).unwrap();
    let mut pair = Pair::new();
    let idle = Some(Duration::from_millis(400));
    pair.client = pair.client.with_transport(TransportConfig::default().with_max_idle_timeout(idle));
    let connecting = pair.client().connect(silent.local_addr().unwrap(), "localhost").unwrap();
    assert!(matches!(within(connecting).await.unwrap_err(), ConnectionError::TimedOut(_)));
}

/// The connection attempt must fail well before the handshake timeout, which is 30 s.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_port_and_a_missing_way_are_told_at_once() {
    let closed = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let pair = Pair::new();
    for (address, words) in [(closed, "refused"), ("192.0.2.1:9".parse().unwrap(), "")] {
        let begun = Instant::now();
        let connecting = pair.client().connect(address, "localhost").unwrap();
        let error = within(connecting).await.unwrap_err();
        assert!(matches!(error, ConnectionError::Unreachable(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
}

/// A restarted server that has lost its connections but has the same reset key sends stateless resets to its
/// clients.
#[tokio::test]
async fn a_restarted_server_resets_connections() {
    let pair = Pair::new();
    let socket = UdpSocket::bind(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    let mut secrets = EndpointConfig::new([7; 32]);
    let first = Endpoint::new(&secrets, Some(pair.server.clone()), socket.try_clone().unwrap()).unwrap();
    let client = pair.client();
    let (ours, theirs) = connect(&client, &first).await;
    within(ours.confirmed()).await.unwrap();
    // The first server receives nothing from now on: it moves to another socket and sends nothing more.
    first.rebind(UdpSocket::bind(loopback()).unwrap()).unwrap();
    drop(first);
    std::mem::forget(theirs);
    secrets = secrets.with_seed([8; 32]);
    let _second = Endpoint::new(&secrets, Some(pair.server.clone()), socket).unwrap();
    assert_eq!(address, _second.local_addr().unwrap());
    let mut send = ours.open_uni().await.unwrap();
    send.write_all(&[1; 500]).await.unwrap();
    assert_eq!(within(ours.closed()).await, ConnectionError::Reset);
}

#[tokio::test]
async fn versions_are_negotiated() {
    let mut pair = Pair::new();
    // The client begins with v2, and the server supports only v1. After Version Negotiation the client tries
    // again.
    pair.client = pair.client.with_initial_version(Version::V2);
    pair.server = pair.server.with_transport(TransportConfig::default().with_versions(vec![Version::V1]));
    let it = connected(&pair).await;
    assert_eq!(it.ours.handshake_data().version, Version::V1);
    serve(it.theirs);
    echo(&it.ours, b"v1 after all").await;
}

#[tokio::test]
async fn a_compatible_version_is_preferred() {
    let mut pair = Pair::new();
    let transport = TransportConfig::default().with_versions(vec![Version::V2, Version::V1]);
    pair.server = pair.server.with_transport(transport);
    let it = connected(&pair).await;
    assert_eq!(it.theirs.handshake_data().version, Version::V2);
    assert_eq!(it.ours.handshake_data().version, Version::V2);
    serve(it.theirs);
    echo(&it.ours, b"v2 without a round trip more").await;
}

#[tokio::test]
async fn no_version_in_common() {
    let mut pair = Pair::new();
    let only = |version| Arc::new(TransportConfig::default().with_versions(vec![version]));
    pair.client = pair.client.with_transport(only(Version::V1));
    pair.server = pair.server.with_transport(only(Version::V2));
    let (client, server) = pair.endpoints();
    assert_eq!(within(connecting(&client, &server)).await.unwrap_err(), ConnectionError::VersionMismatch);
}

/// A server may send data before the client has completed the handshake (0.5-RTT).
#[tokio::test]
async fn half_round_trip_data() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let ours = connecting(&client, &server);
    let accepting = async {
        let connecting = server.accept().await.unwrap().accept().unwrap();
        let data = connecting.handshake_data().await.unwrap();
        assert_eq!(data.server_name.as_deref(), Some("localhost"));
        let (early, _) = connecting.into_0rtt().unwrap();
        let mut send = early.open_uni().await.unwrap();
        send.write_all(b"early bird").await.unwrap();
        send.finish().unwrap();
        early
    };
    let (ours, _theirs) = within(async { tokio::join!(ours, accepting) }).await;
    let mut receive = within(ours.unwrap().accept_uni()).await.unwrap();
    assert_eq!(within(receive.read_to_end(100)).await.unwrap(), b"early bird");
}

#[tokio::test]
async fn ipv6_sockets_reach_ipv4_servers() {
    let pair = Pair::new();
    let server = Endpoint::server(pair.server.clone(), loopback()).unwrap();
    // Without IPv6 there is nothing to test.
    let Ok(mut client) = Endpoint::client("[::]:0".parse().unwrap()) else { return };
    client.set_default_client_config(pair.client.clone());
    let (ours, theirs) = connect(&client, &server).await;
    assert_eq!(ours.remote_address(), server.local_addr().unwrap());
    serve(theirs);
    echo(&ours, &pattern(100_000)).await;
}

#[tokio::test]
async fn wildcard_servers_answer_from_the_address_they_were_asked_at() {
    let pair = Pair::new();
    let server = Endpoint::server(pair.server.clone(), "0.0.0.0:0".parse().unwrap()).unwrap();
    let address = (std::net::Ipv4Addr::new(127, 0, 0, 2), server.local_addr().unwrap().port()).into();
    let client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
    let ours = client.connect_with(&pair.client, address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(ours, accepting) }).await;
    let ours = ours.unwrap();
    serve(theirs.clone());
    echo(&ours, &pattern(100_000)).await;
    assert_eq!(ours.remote_address(), address);
    assert_eq!(theirs.local_address(), Some(address));
}

/// No task waits forever when the runtime shuts down.
#[test]
fn a_runtime_that_ends_ends_its_connections() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let it = runtime.block_on(connected(&Pair::new()));
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert_eq!(within(it.ours.closed()).await, ConnectionError::LocallyClosed);
        assert!(within(it.server.accept()).await.is_none());
        within(it.client.wait_idle()).await;
    });
}

#[tokio::test]
async fn traces_are_written() {
    let dir = std::env::temp_dir().join(format!("anabranch-qlog-{}", std::process::id()));
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    client.set_qlog_dir(Some(dir.clone()));
    server.set_qlog_dir(Some(dir.clone()));
    let (ours, theirs) = connect(&client, &server).await;
    serve(theirs);
    echo(&ours, &pattern(10_000)).await;
    ours.close(VarInt::from_u32(0), b"");
    within(client.wait_idle()).await;
    within(server.wait_idle()).await;
    let mut names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let texts: Vec<_> = names.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(names.len(), 2);
    let stem = |at: usize, end: &str| names[at].to_str().unwrap().strip_suffix(end).unwrap().to_owned();
    assert_eq!(stem(0, "_client.sqlog"), stem(1, "_server.sqlog"), "both ends name the connection alike");
    for text in texts {
        for name in
            ["connection_started", "packet_sent", "packet_received", "parameters_set", "connection_closed"]
        {
            assert!(text.contains(&format!("\"quic:{name}\"")), "{name} is missing");
        }
    }
}

/// Connections begin and end on all threads at once, and every byte arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_connections_at_once() {
    const TASKS: usize = 20;
    const ROUNDS: usize = 10;
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let address = server.local_addr().unwrap();
    let accepting = tokio::spawn({
        let server = server.clone();
        async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move { serve(incoming.await.unwrap()) });
            }
        }
    });
    let data = Arc::new(pattern(200_000));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (client, data) = (client.clone(), Arc::clone(&data));
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let connection = within(client.connect(address, "localhost").unwrap()).await.unwrap();
                    echo(&connection, &data[..data.len() / (round + 1)]).await;
                    connection.close(VarInt::from_u32(0), b"");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    within(client.wait_idle()).await;
    server.close(VarInt::from_u32(0), b"");
    within(server.wait_idle()).await;
    within(accepting).await.unwrap();
    assert_eq!((client.open_connections(), server.open_connections()), (0, 0));
}

/// Settings that contradict the protocol are reported before anything is sent.
#[tokio::test]
async fn settings_are_checked_before_anything_begins() {
    let pair = Pair::with_transport(TransportConfig::default().with_active_connection_id_limit(1));
    let refused = Endpoint::server(pair.server.clone(), loopback()).err().unwrap();
    let EndpointError::InvalidSetting(inside) = refused else { panic!("{refused:?}") };
    assert_eq!(inside.setting(), "active_connection_id_limit");
    let begun = pair.client().connect("127.0.0.1:4433".parse().unwrap(), "localhost");
    let error = begun.err().unwrap();
    assert!(error.to_string().contains("active_connection_id_limit must be 2 to 8"), "{error}");
}
