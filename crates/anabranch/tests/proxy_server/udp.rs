//! UDP through the proxy.

use std::time::Duration;

use anabranch::TransportConfig;
use anabranch::http3::{Code, Error};
use anabranch::proxy::server::Outcome;
use bytes::Bytes;
use tokio::net::UdpSocket;

use super::support::{Plan, Tunnel, proxy_status, udp, within};

/// Starts a target that echoes each datagram. Returns its address.
async fn echo() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
            socket.send_to(&buffer[..len], from).await.unwrap();
        }
    });
    address
}

/// Encodes a capsule whose type is below 64.
fn capsule(kind: u8, value: &[u8]) -> Bytes {
    let len = (value.len() as u32 | 0x8000_0000).to_be_bytes();
    [&[kind], &len[..], value].concat().into()
}

/// Reads one DATAGRAM capsule from the stream, and returns its value.
async fn read_capsule(tunnel: &mut Tunnel) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        read.extend_from_slice(&within(tunnel.receive.read_chunk(usize::MAX)).await.unwrap().unwrap());
        let value = match read[..] {
            [0, first @ 0..=0x3f, ..] => Some((2, usize::from(first))),
            [0, first @ 0x40..=0x7f, second, ..] => {
                Some((3, usize::from(first & 0x3f) << 8 | usize::from(second)))
            }
            [0, 0x80, b, c, d, ..] => Some((5, usize::from(b) << 16 | usize::from(c) << 8 | usize::from(d))),
            _ => None,
        };
        if let Some((head, len)) = value
            && read.len() >= head + len
        {
            assert_eq!(read.len(), head + len, "one capsule");
            return read.split_off(head);
        }
    }
}

async fn expect_abort(tunnel: &mut Tunnel, code: Code) {
    let error = within(tunnel.receive.read_chunk(100)).await.unwrap_err();
    assert!(matches!(error, Error::Reset(reset) if reset == code), "{error:?}");
}

#[tokio::test]
async fn datagrams_reach_the_target_and_come_back() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let tunnel = udp(&connection, &echo().await, &[]).await;
    assert_eq!(tunnel.response.status(), 200);
    assert_eq!(tunnel.response.headers()["capsule-protocol"], "?1");
    for name in ["content-length", "content-type", "transfer-encoding"] {
        assert!(!tunnel.response.headers().contains_key(name), "{name}");
    }
    let datagrams = tunnel.receive.datagrams();
    for payload in ["", "x", "a longer one"] {
        datagrams.send(&[b"\0", payload.as_bytes()].concat()).unwrap();
        assert_eq!(within(datagrams.recv()).await.unwrap(), format!("\0{payload}"));
    }
    // A datagram with an unknown context ID is dropped (RFC 9298 §5), and the flow goes on.
    datagrams.send(b"\x02unknown").unwrap();
    datagrams.send(b"\0known").unwrap();
    assert_eq!(within(datagrams.recv()).await.unwrap(), "\0known");
    let Tunnel { mut send, mut receive, .. } = tunnel;
    send.finish().unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap(), None);
    let record = site.records(1).await.remove(0);
    assert_eq!((record.sent, record.received, record.dropped), (18, 18, 0));
    assert_eq!(record.outcome, Outcome::Complete);
}

#[tokio::test]
async fn requests_with_content_fields_are_malformed() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = echo().await;
    for field in [("content-length", "5"), ("content-type", "text/plain")] {
        let tunnel = udp(&connection, &target, &[field]).await;
        assert_eq!(tunnel.response.status(), 400, "{field:?}");
        assert_eq!(proxy_status(tunnel.response.headers()), "http_request_error");
    }
    assert_eq!(udp(&connection, &target, &[("content-language", "en")]).await.response.status(), 200);
}

/// The protocol of the request says that there are capsules. The field is for intermediaries (RFC 9297 §3.4).
#[tokio::test]
async fn the_capsule_protocol_field_is_not_needed_and_not_judged() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = echo().await;
    for values in [&[][..], &["?0"], &["5"], &["?1;x=2"], &["?1", "?1"]] {
        let fields: Vec<_> = values.iter().map(|value| ("capsule-protocol", *value)).collect();
        let mut tunnel = udp(&connection, &target, &fields).await;
        assert_eq!(tunnel.response.status(), 200, "{values:?}");
        assert_eq!(tunnel.response.headers()["capsule-protocol"], "?1");
        tunnel.send.write(capsule(0x17, b"skipped")).await.unwrap();
        tunnel.send.write(capsule(0, b"\0hello")).await.unwrap();
        assert_eq!(within(tunnel.receive.datagrams().recv()).await.unwrap(), "\0hello", "{values:?}");
    }
}

#[tokio::test]
async fn clients_that_use_capsules_have_large_datagrams_in_capsules() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let mut tunnel = udp(&connection, &echo().await, &[]).await;
    let mut all = 0;
    for len in [9_000, 30_000, 65_507] {
        let payload: Vec<u8> = (0..=len).map(|n| if n == 0 { 0 } else { n as u8 }).collect();
        tunnel.send.write(capsule(0, &payload)).await.unwrap();
        assert!(read_capsule(&mut tunnel).await == payload, "{len}");
        all += len as u64;
    }
    // A capsule of another type is skipped, in pieces too (RFC 9297 §3.2).
    for piece in capsule(0x17, &[7; 100_000]).chunks(999) {
        tunnel.send.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    // A payload that fits is sent back in a DATAGRAM frame, although it came in a capsule.
    tunnel.send.write(capsule(0, b"\0small")).await.unwrap();
    assert_eq!(within(tunnel.receive.datagrams().recv()).await.unwrap(), "\0small");
    // The host cannot send a UDP datagram of this length over IPv4, so it is dropped, and the flow goes on.
    tunnel.send.write(capsule(0, &[0; 1 + 65_527])).await.unwrap();
    tunnel.send.write(capsule(0, b"\0last")).await.unwrap();
    assert_eq!(within(tunnel.receive.datagrams().recv()).await.unwrap(), "\0last");
    tunnel.send.finish().unwrap();
    let record = site.records(1).await.remove(0);
    assert_eq!((record.sent, record.received, record.dropped), (all + 9, all + 9, 1));
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_for_clients_that_use_no_capsules() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut tunnel = udp(&connection, &target.local_addr().unwrap().to_string(), &[]).await;
    let datagrams = tunnel.receive.datagrams();
    datagrams.send(b"\0here").unwrap();
    let mut buffer = [0; 100];
    let (_, proxy) = within(target.recv_from(&mut buffer)).await.unwrap();
    // RFC 9298 §6.1: a probe of the MTU must be lost.
    target.send_to(&[0; 9_000], proxy).await.unwrap();
    target.send_to(b"small", proxy).await.unwrap();
    assert_eq!(within(datagrams.recv()).await.unwrap(), "\0small");
    tunnel.send.finish().unwrap();
    assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap(), None, "no capsule");
    let record = site.records(1).await.remove(0);
    assert_eq!((record.sent, record.received, record.dropped), (4, 5, 1));
}

#[tokio::test]
async fn clients_without_datagrams_have_capsules() {
    let site = Plan::open().serve();
    let connection = site.connect_with(TransportConfig::default().with_datagram_receive_buffer(0)).await;
    let mut tunnel = udp(&connection, &echo().await, &[]).await;
    tunnel.send.write(capsule(0, b"\0hello")).await.unwrap();
    assert_eq!(read_capsule(&mut tunnel).await, b"\0hello");
}

#[tokio::test]
async fn malformed_datagrams_abort_the_flow() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = echo().await;
    // Without a context ID, with a truncated one, and longer than a UDP payload can be (RFC 9298 §5).
    for value in [&b""[..], &b"\x40"[..], &[0; 1 + 65_528]] {
        let mut tunnel = udp(&connection, &target, &[]).await;
        tunnel.send.write(capsule(0, value)).await.unwrap();
        expect_abort(&mut tunnel, Code::DATAGRAM_ERROR).await;
    }
    let mut tunnel = udp(&connection, &target, &[]).await;
    tunnel.send.write(capsule(0, b"\0cut").slice(..4)).await.unwrap();
    tunnel.send.finish().unwrap();
    expect_abort(&mut tunnel, Code::MESSAGE_ERROR).await;
    assert!(site.records(4).await.iter().all(|record| record.outcome == Outcome::ByClient));
}

#[tokio::test]
async fn a_port_that_is_closed_ends_the_flow() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut tunnel = udp(&connection, &closed, &[]).await;
    assert_eq!(tunnel.response.status(), 200);
    tunnel.receive.datagrams().send(b"\0anybody?").unwrap();
    // The host reports by ICMP that the port is unreachable.
    expect_abort(&mut tunnel, Code::CONNECT_ERROR).await;
    assert_eq!(site.records(1).await[0].outcome, Outcome::ByTarget);
}

#[tokio::test]
async fn an_idle_flow_ends_in_order() {
    let mut plan = Plan::open();
    plan.options = plan.options.with_udp_idle(Duration::from_millis(400));
    let site = plan.serve();
    let connection = site.connect().await;
    let mut tunnel = udp(&connection, &echo().await, &[]).await;
    let datagrams = tunnel.receive.datagrams();
    for _ in 0..4 {
        datagrams.send(b"\0awake").unwrap();
        within(datagrams.recv()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap(), None);
    assert_eq!(site.records(1).await[0].outcome, Outcome::Idle);
}

#[tokio::test]
async fn a_client_that_is_gone_ends_the_flow() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let tunnel = udp(&connection, &echo().await, &[]).await;
    drop(tunnel);
    assert_eq!(site.records(1).await[0].outcome, Outcome::ByClient);
    let _open = udp(&connection, &echo().await, &[]).await;
    connection.close();
    assert_eq!(site.records(2).await[1].outcome, Outcome::ByClient);
    assert_eq!(site.proxy.totals()["*"].flows, 0);
}

#[tokio::test]
async fn a_target_that_floods_a_slow_client_does_not_fill_memory() {
    let site = Plan::open().serve();
    let connection = site.connect_with(TransportConfig::default().with_datagram_receive_buffer(0)).await;
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut tunnel = udp(&connection, &target.local_addr().unwrap().to_string(), &[]).await;
    tunnel.send.write(capsule(0, b"\0here")).await.unwrap();
    let mut buffer = [0; 100];
    let (_, proxy) = within(target.recv_from(&mut buffer)).await.unwrap();
    // The client reads nothing: the stream's window and the proxy's queue fill, and further datagrams are
    // dropped.
    let flood = async {
        while site.proxy.totals()["*"].dropped == 0 {
            for _ in 0..50 {
                let _ = target.try_send_to(&[0; 60_000], proxy);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(flood).await;
    drop(tunnel);
    assert!(site.records(1).await[0].dropped > 0);
}
