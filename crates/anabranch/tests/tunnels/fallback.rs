//! Tunnels over TCP while UDP does not reach the proxy.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anabranch::SelfSigned;
use anabranch::proxy::client::{
    ConnectFailure, Http2Error, IpEvent, Proxy, ProxyConfig, ProxyState, RefusalKind, SendPayloadError,
    StreamError, TunnelError,
};
use anabranch_testkit::pattern;
use bytes::Bytes;
use h2::Reason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::over_tcp::TcpSite;
use super::streams::pair;
use super::support::{Setting, Site, client_config, target, within};

/// Returns settings with which QUIC has a head start of 250 ms.
fn quickly(site: &TcpSite) -> ProxyConfig {
    client_config(&site.identity, site.address).with_attempt_timeout(Duration::from_millis(500))
}

/// Waits until `is_so`.
async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn streams_go_over_tcp_if_udp_is_silent() {
    let site = TcpSite::start();
    let proxy = Proxy::new(client_config(&site.identity, site.address));
    let begin = Instant::now();
    let tunnel = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(2), "QUIC has a head start: {:?}", begin.elapsed());
    let state = proxy.states().borrow().clone();
    let ProxyState::Fallback(reason) = state else { panic!("{state:?}") };
    assert!(matches!(*reason, ConnectFailure::TimedOut(_)), "{reason}");
    assert_eq!((proxy.connections().len(), proxy.fallback_connections()), (0, 1));
    let (mut read, mut write) = tokio::io::split(tunnel);
    let sent = pattern(3_000_000);
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
        write
    });
    let mut received = Vec::new();
    within(read.read_to_end(&mut received)).await.unwrap();
    assert!(received == expected, "{} bytes", received.len());
    drop(writing.await.unwrap());

    let refused = within(proxy.tcp(&target("refused.test:7"))).await.unwrap_err();
    let TunnelError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.kind(), RefusalKind::Unreachable);
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn a_pump_passes_half_closes_and_resets_over_tcp() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let tunnel = within(proxy.tcp(&target("late.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::from("first")));
    program.write_all(&pattern(2_000_000)).await.unwrap();
    program.shutdown().await.unwrap();
    let mut response = String::new();
    within(program.read_to_string(&mut response)).await.unwrap();
    assert_eq!(response, "2000005 bytes");
    let pumped = within(pumping).await.unwrap();
    assert!(pumped.error.is_none(), "{:?}", pumped.error);

    // By the target.
    let tunnel = within(proxy.tcp(&target("reset.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    program.write_all(b"x").await.unwrap();
    let error = within(program.read_to_end(&mut Vec::new())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(within(pumping).await.unwrap().error.unwrap().kind(), ErrorKind::ConnectionReset);

    // By the program, whose bytes nobody reads.
    let tunnel = within(proxy.tcp(&target("deaf.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    let soon = Duration::from_millis(500);
    while tokio::time::timeout(soon, program.write_all(&[0; 65_536])).await.is_ok() {}
    socket2::SockRef::from(&program).set_linger(Some(Duration::ZERO)).unwrap();
    drop(program);
    assert_eq!(within(pumping).await.unwrap().error.unwrap().kind(), ErrorKind::ConnectionReset);
    until(|| site.reset() == Some(Reason::CONNECT_ERROR)).await;

    // A tunnel that is dropped.
    drop(within(proxy.tcp(&target("deaf.test:7"))).await.unwrap());
    until(|| site.reset() == Some(Reason::CANCEL)).await;
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn flows_and_packets_travel_in_capsules_over_tcp() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    assert!(within(proxy.carries_udp()).await.unwrap());
    let mut flow = within(proxy.udp(&target("echo.test:7"))).await.unwrap();
    assert_eq!((flow.max_payload(), flow.has_copies()), (65_527, false));
    for len in [0, 1, 1_000, 65_527] {
        let payload = pattern(len);
        while let Err(SendPayloadError::Full) = flow.send(&payload) {
            tokio::task::yield_now().await;
        }
        assert_eq!(within(flow.recv()).await.unwrap().unwrap(), payload);
    }
    assert!(matches!(flow.send(&pattern(65_528)), Err(SendPayloadError::TooLarge { .. })));

    let (sender, mut receiver) = within(proxy.ip()).await.unwrap().split();
    // A UDP packet over IPv4, without a payload.
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    packet.extend([0, 7, 0, 7, 0, 8, 0, 0]);
    sender.send(&packet).unwrap();
    let received = within(receiver.recv()).await.unwrap();
    assert_eq!(received, Some(IpEvent::Packet(packet.into())));
}

#[tokio::test]
async fn new_tunnels_return_to_quic_and_old_ones_go_on() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let mut old = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    let mut states = proxy.states();
    assert!(matches!(*states.borrow(), ProxyState::Fallback(_)));
    let TcpSite { identity, address, seen, silent } = site;
    drop(silent);
    let begin = Instant::now();
    let quic = Site::at(address, identity, Setting::default());
    within(states.wait_for(|state| matches!(state, ProxyState::Connected))).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let mut new = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    assert_eq!((proxy.connections().len(), proxy.fallback_connections()), (1, 1));
    assert!(quic.endpoint.open_connections() > 0);
    for tunnel in [&mut old, &mut new] {
        tunnel.write_all(b"x").await.unwrap();
        assert_eq!(within(tunnel.read_u8()).await.unwrap(), b'x');
    }
    drop(old);
    until(|| seen.lock().unwrap().ended == 1 && proxy.fallback_connections() == 0).await;
    assert_eq!(seen.lock().unwrap().connections, 1);
}

#[tokio::test]
async fn tunnels_of_a_lost_connection_fail_over_tcp_too() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let mut lost = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    within(proxy.close()).await;
    let error = within(lost.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
    assert_eq!(proxy.fallback_connections(), 0);
    until(|| site.ended() == 1).await;
}

#[tokio::test]
async fn a_failure_that_lasts_is_no_reason_for_tcp() {
    let site = TcpSite::start();
    let stranger = SelfSigned::new(["localhost"]).unwrap();
    drop(site.silent);
    let _quic = Site::at(site.address, stranger, Setting::default());
    let proxy = Proxy::new(client_config(&site.identity, site.address));
    let error = within(proxy.tcp(&target("echo.test:7"))).await.unwrap_err();
    let TunnelError::Unavailable(failure) = &error else { panic!("{error}") };
    assert!(failure.is_lasting(), "{failure}");
    assert_eq!(site.seen.lock().unwrap().connections, 0);
}

#[tokio::test]
async fn what_is_wrong_over_tcp_is_told() {
    let site = TcpSite::start();
    let stranger = SelfSigned::new(["localhost"]).unwrap();
    let proxy =
        Proxy::new(client_config(&stranger, site.address).with_attempt_timeout(Duration::from_millis(500)));
    let error = within(proxy.connect()).await.unwrap_err();
    let TunnelError::Unavailable(failure) = &error else { panic!("{error}") };
    assert!(matches!(**failure, ConnectFailure::OverTcp(_)) && !failure.is_lasting(), "{failure}");
    assert!(failure.to_string().contains("certificate"), "{failure}");
}

#[tokio::test]
async fn the_fallback_can_be_switched_off() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site).with_fallback(false));
    let error = within(proxy.connect()).await.unwrap_err();
    let TunnelError::Unavailable(failure) = &error else { panic!("{error}") };
    assert!(matches!(**failure, ConnectFailure::TimedOut(_)), "{failure}");
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn a_program_that_reads_nothing_holds_up_no_other() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let mut slow = Vec::new();
    for name in ["flood.test:7", "flood.test:7", "flood.test:7", "deaf.test:7"] {
        slow.push(within(proxy.tcp(&target(name))).await.unwrap());
    }
    // Until its window and the buffer are full.
    let soon = Duration::from_millis(300);
    let deaf = slow.last_mut().unwrap();
    while tokio::time::timeout(soon, deaf.write_all(&[0; 16_384])).await.is_ok() {}
    let mut quick = within(proxy.tcp(&target("late.test:7"))).await.unwrap();
    quick.shutdown().await.unwrap();
    let mut response = String::new();
    within(quick.read_to_string(&mut response)).await.unwrap();
    assert_eq!(response, "0 bytes");
    // Each tunnel has its own window for what it receives.
    for tunnel in &mut slow[..3] {
        within(tunnel.read_exact(&mut vec![0; 3_000_000])).await.unwrap();
    }
}

#[tokio::test]
async fn max_tunnels_share_a_connection_and_further_ones_wait() {
    /// `MAX_TUNNELS`
    const MAX_TUNNELS: usize = 512;
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let mut tunnels = Vec::new();
    for _ in 0..MAX_TUNNELS {
        tunnels.push(within(proxy.tcp(&target("echo.test:7"))).await.unwrap());
    }
    let waiting = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.tcp(&target("echo.test:7")).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    drop(tunnels.pop());
    within(waiting).await.unwrap().unwrap();
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn the_end_of_the_proxy_is_the_end_of_its_tunnels() {
    let site = TcpSite::start();
    let proxy = Proxy::new(quickly(&site));
    let tunnel = within(proxy.tcp(&target("close.test:7"))).await.unwrap();
    let (_send, mut receive) = tunnel.into_halves();
    let error = within(receive.read_chunk(1)).await.unwrap_err();
    assert!(matches!(error, StreamError::Http2(Http2Error::ConnectionLost(_))), "{error:?}");
    let mut states = proxy.states();
    within(states.wait_for(|state| matches!(state, ProxyState::Lost(_) | ProxyState::Fallback(_))))
        .await
        .unwrap();
    // The next tunnel finds the next connection.
    within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    assert_eq!(site.connections(), 2);
}
