//! UDP flows whose payloads are put back in order at both ends of the tunnel.

use std::time::{Duration, Instant};

use anabranch::TransportConfig;
use anabranch::proxy::FlowTerms;
use anabranch::proxy::client::Proxy;
use tokio::net::UdpSocket;

use super::support::{Plan, udp, within};

/// Maximum time for which a payload waits, in milliseconds.
const HOLD: u64 = 400;

/// Returns a numbered payload (context ID 2).
fn numbered(number: u32, payload: &[u8]) -> Vec<u8> {
    [&[2], &number.to_be_bytes()[..], payload].concat()
}

async fn next(target: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 100];
    let (len, _) = within(target.recv_from(&mut buffer)).await.unwrap();
    buffer[..len].to_vec()
}

#[tokio::test]
async fn the_target_receives_payloads_in_order_after_hold_at_most() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let order = format!("order={HOLD}");
    let tunnel =
        udp(&connection, &target.local_addr().unwrap().to_string(), &[("anabranch-flow", &order)]).await;
    assert_eq!(tunnel.response.headers()["anabranch-flow"], order.as_str());
    let datagrams = tunnel.receive.datagrams();
    for (number, payload) in [(2, b"c"), (1, b"b"), (2, b"c"), (0, b"a"), (4, b"e")] {
        datagrams.send(&numbered(number, payload)).unwrap();
    }
    let begin = Instant::now();
    for payload in [b"a", b"b", b"c"] {
        assert_eq!(next(&target).await, payload);
    }
    // Number 3 does not come in time.
    assert_eq!(next(&target).await, b"e");
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_millis(HOLD - 50), "{waited:?}");
    // A payload without a number waits for none.
    datagrams.send(&numbered(6, b"g")).unwrap();
    datagrams.send(b"\0plain").unwrap();
    assert_eq!(next(&target).await, b"plain");
    assert_eq!(next(&target).await, b"g");
    // A payload that arrives after the wait is delivered at once.
    datagrams.send(&numbered(3, b"d")).unwrap();
    assert_eq!(next(&target).await, b"d");
}

#[tokio::test]
async fn ordered_flows_carry_payloads_both_ways() {
    let site = Plan::open().serve();
    let proxy = Proxy::new(site.config(TransportConfig::default()));
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let terms = FlowTerms::default().with_order(Duration::from_millis(HOLD));
    let mut flow = within(proxy.udp_with(&target.local_addr().unwrap().into(), terms)).await.unwrap();
    assert!(flow.is_ordered() && !flow.has_copies());
    let mut buffer = [0; 100];
    for n in 0..100_u8 {
        flow.send(&[n; 20]).unwrap();
        let (len, from) = within(target.recv_from(&mut buffer)).await.unwrap();
        assert_eq!(buffer[..len], [n; 20]);
        target.send_to(&buffer[..len], from).await.unwrap();
        assert_eq!(within(flow.recv()).await.unwrap().unwrap(), [n; 20][..]);
    }
}
