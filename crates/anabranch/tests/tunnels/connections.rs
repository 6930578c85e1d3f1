//! Connections that carry tunnels: the client races attempts for them, replaces them when they are lost, and
//! opens a second one when the first one is full.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::proxy::client::{
    ConnectFailure, Credentials, MAX_CONNECTIONS, Proxy, ProxyState, RefusalKind, Resolve, Resolving,
    TunnelError,
};
use anabranch::{PathPolicy, SelfSigned, config};
use anabranch_testkit::endpoints::loopback;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{LOST, Setting, Site, target, within};

#[tokio::test]
async fn tunnels_share_a_connection_that_ends_with_the_client() {
    let site = Site::start();
    let proxy = site.proxy();
    assert!(matches!(*proxy.states().borrow(), ProxyState::Idle));
    within(proxy.connect()).await.unwrap();
    let mut tunnels = Vec::new();
    for _ in 0..20 {
        tunnels.push(within(proxy.tcp(&target("echo.test:7"))).await.unwrap());
    }
    let connections = proxy.connections();
    assert_eq!((connections.len(), site.endpoint.open_connections()), (1, 1));
    assert!(matches!(*proxy.states().borrow(), ProxyState::Connected));
    // A tunnel keeps its connection open, although the client's tasks have ended.
    drop(proxy);
    let mut last = tunnels.pop().unwrap();
    drop(tunnels);
    last.write_all(b"x").await.unwrap();
    assert_eq!(within(last.read_u8()).await.unwrap(), b'x');
    let [quic] = &connections[..] else { unreachable!() };
    let quic = quic.clone();
    drop((last, connections));
    // This handle is the last one that keeps the connection open.
    assert!(quic.close_reason().is_none());
    drop(quic);
    within(site.endpoint.wait_idle()).await;
}

#[tokio::test]
async fn a_path_that_is_dead_from_the_start_does_not_matter() {
    let site = Site::start();
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addresses = [dead.local_addr().unwrap(), site.address];
    let policy = PathPolicy::default().allowing(["lo".parse().unwrap()]);
    let proxy = Proxy::new(site.config().with_addresses(addresses).with_paths(policy));
    let begin = Instant::now();
    within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let mut seen = [0; 2_000];
    assert!(dead.recv(&mut seen).unwrap() >= 1_200, "the first attempt was there");
}

#[tokio::test]
async fn a_full_connection_gets_a_second_one_and_then_tunnels_wait() {
    let site = Site::with(Setting { streams: Some(3), ..Setting::default() });
    let proxy = site.proxy();
    let mut tunnels = Vec::new();
    for n in 0..3 * MAX_CONNECTIONS {
        tunnels.push(within(proxy.tcp(&target("echo.test:7"))).await.unwrap());
        assert_eq!(proxy.connections().len(), 1 + n / 3);
    }
    let waiting = tokio::spawn(async move { proxy.tcp(&target("echo.test:7")).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    // Both connections have room again.
    tunnels.clear();
    within(waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn tunnels_of_a_lost_connection_fail_and_new_ones_wait_for_the_next() {
    let site = Site::start();
    let proxy = site.proxy();
    let mut lost = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    let mut states = proxy.states();
    let (address, identity) = site.kill().await;
    let error = within(lost.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert!(error.to_string().contains("killed"), "{error}");
    within(states.wait_for(|state| matches!(state, ProxyState::Lost(_) | ProxyState::Failing(_))))
        .await
        .unwrap();

    let waiting = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.tcp(&target("echo.test:7")).await }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!waiting.is_finished());
    let again = restarted(address, identity).await;
    let mut tunnel = within(waiting).await.unwrap().unwrap();
    tunnel.write_all(b"x").await.unwrap();
    assert_eq!(within(tunnel.read_u8()).await.unwrap(), b'x');
    assert_eq!(again.endpoint.open_connections(), 1);
}

/// Starts a proxy at the address of one that was killed, as soon as it is free.
async fn restarted(address: SocketAddr, identity: SelfSigned) -> Site {
    while UdpSocket::bind(address).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Site::at(address, identity, Setting::default())
}

/// Resolver of a proxy that moves.
#[derive(Debug)]
struct Moving(Mutex<SocketAddr>);

impl Resolve for Moving {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        assert_eq!((host, port > 0), ("localhost", true));
        let address = *self.0.lock().unwrap();
        Box::pin(async move { Ok(vec![address]) })
    }
}

#[tokio::test]
async fn a_proxy_that_moves_is_found_again() {
    let site = Site::start();
    let moving = Arc::new(Moving(Mutex::new(site.address)));
    let config = site.config().with_addresses([]).with_resolver(Arc::clone(&moving) as Arc<dyn Resolve>);
    let proxy = Proxy::new(config.with_attempt_timeout(Duration::from_secs(1)));
    within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    let (_, identity) = site.kill().await;
    let next = Site::at(loopback(), identity, Setting::default());
    *moving.0.lock().unwrap() = next.address;
    let mut tunnel = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    tunnel.write_all(b"x").await.unwrap();
    assert_eq!(within(tunnel.read_u8()).await.unwrap(), b'x');
    assert_eq!(next.endpoint.open_connections(), 1);
}

#[tokio::test]
async fn a_tunnel_waits_no_longer_than_its_patience() {
    let site = Site::start();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = site.config().with_addresses([silent.local_addr().unwrap()]);
    let patience = Duration::from_millis(900);
    let proxy = Proxy::new(config.with_attempt_timeout(Duration::from_millis(300)).with_patience(patience));
    let begin = Instant::now();
    let error = within(proxy.tcp(&target("echo.test:7"))).await.unwrap_err();
    assert!(begin.elapsed() >= patience);
    let said = "no connection to the proxy: the proxy did not answer on any path within 0.3 s";
    assert_eq!(error.to_string(), said);
    let error = within(proxy.connect()).await.unwrap_err();
    assert!(matches!(error, TunnelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn a_failure_that_lasts_is_told_at_once() {
    let site = Site::start();
    let stranger = SelfSigned::new(["localhost"]).unwrap();
    let quic = config::client(stranger.roots().unwrap(), ["h3"]).unwrap();
    let url = format!("https://localhost:{}", site.address.port());
    let config = anabranch::proxy::client::ProxyConfig::new(&url, quic).unwrap();
    let proxy = Proxy::new(config.with_addresses([site.address]).with_patience(Duration::from_secs(600)));
    for _ in 0..2 {
        let error = within(proxy.tcp(&target("echo.test:7"))).await.unwrap_err();
        let TunnelError::Unavailable(failure) = &error else { panic!("{error}") };
        assert!(failure.is_lasting() && matches!(**failure, ConnectFailure::Attempts(_)), "{failure}");
    }
}

#[tokio::test]
async fn credentials_are_checked_before_the_first_tunnel() {
    let site = Site::start();
    within(site.proxy().check()).await.unwrap();
    let wrong = Proxy::new(site.config().with_credentials(Credentials::bearer("wrong").unwrap()));
    let error = within(wrong.check()).await.unwrap_err();
    let TunnelError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!((refusal.status.as_u16(), refusal.kind()), (407, RefusalKind::Credentials));
}

#[tokio::test]
async fn a_closed_client_opens_no_tunnels() {
    let site = Site::start();
    let proxy = site.proxy();
    let mut tunnel = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    within(proxy.close()).await;
    assert!(within(tunnel.read_u8()).await.is_err());
    let error = within(proxy.tcp(&target("echo.test:7"))).await.unwrap_err();
    assert!(matches!(error, TunnelError::Closed), "{error}");
    assert!(matches!(*proxy.states().borrow(), ProxyState::Closed));
}

#[tokio::test]
async fn a_request_that_ends_every_connection_is_tried_three_times() {
    let site = Site::start();
    let error = within(site.proxy().tcp(&target("lost.test:7"))).await.unwrap_err();
    assert!(matches!(error, TunnelError::Http3(_)), "{error}");
    // The number is `MAX_TRIES`.
    assert_eq!(LOST.load(Ordering::Relaxed), 3);
}
