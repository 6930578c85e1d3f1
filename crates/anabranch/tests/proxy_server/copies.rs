//! UDP flows whose datagrams are sent on two paths.

use std::time::Duration;

use anabranch::proxy::FlowTerms;
use anabranch::proxy::client::Proxy;
use anabranch::{MultipathConfig, PathPolicy, TransportConfig};
use http::Request;
use tokio::net::UdpSocket;

use super::support::{Plan, Site, udp, within};

/// Number of datagrams in each direction.
const MANY: u32 = 300;
/// Length of a datagram, in bytes.
const LEN: usize = 500;

/// Returns a client with two paths.
async fn client(site: &Site) -> Proxy {
    let transport = TransportConfig::default().with_multipath(Some(MultipathConfig::default()));
    let policy = PathPolicy::default().allowing(["lo,count=2".parse().unwrap()]);
    let proxy = Proxy::new(site.config(transport).with_paths(policy));
    within(proxy.connect()).await.unwrap();
    let two_paths = async {
        while proxy.connections()[0].paths().iter().filter(|path| path.validated).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(two_paths).await;
    proxy
}

#[tokio::test]
async fn each_datagram_takes_two_paths_and_arrives_once() {
    let mut plan = Plan::open();
    plan.transport = plan.transport.with_multipath(Some(MultipathConfig::default()));
    let site = plan.serve();
    let proxy = client(&site).await;
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let terms = FlowTerms::default().with_copies().with_deadline(Duration::from_secs(5));
    let address = target.local_addr().unwrap();
    let mut flow = within(proxy.udp_with(&address.into(), terms)).await.unwrap();
    assert!(flow.has_copies());
    let mut buffer = [0; 2 * LEN];
    for n in 0..MANY {
        let mut payload = vec![0; LEN];
        payload[..4].copy_from_slice(&n.to_be_bytes());
        flow.send(&payload).unwrap();
        let (len, from) = within(target.recv_from(&mut buffer)).await.unwrap();
        assert!(buffer[..len] == payload, "{n}");
        target.send_to(&payload, from).await.unwrap();
        assert!(within(flow.recv()).await.unwrap().unwrap() == payload, "{n}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(target.try_recv_from(&mut buffer).is_err(), "a duplicate reached the target");
    let again = tokio::time::timeout(Duration::from_millis(50), flow.recv()).await;
    assert!(again.is_err(), "a duplicate reached the client");
    let connection = &proxy.connections()[0];
    let (least, paths) = (u64::from(MANY) * LEN as u64 * 9 / 10, connection.paths());
    for path in &paths {
        let carried = (path.bytes_sent, path.bytes_received);
        assert!(carried.0 >= least && carried.1 >= least, "{}: {carried:?}", path.id);
    }
    drop(flow);
    let record = site.records(1).await.remove(0);
    let total = u64::from(MANY) * LEN as u64;
    assert_eq!((record.sent, record.received, record.dropped), (total, total, 0));
}

#[tokio::test]
async fn a_proxy_agrees_only_to_what_it_understands() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = target.local_addr().unwrap().to_string();
    for (asked, agreed) in [
        ("copies, deadline=50", Some("copies, deadline=50")),
        ("copies, unknown=7", Some("copies")),
        ("unknown", None),
        ("(", None),
    ] {
        let tunnel = udp(&connection, &address, &[("anabranch-flow", asked)]).await;
        assert_eq!(tunnel.response.status(), 200);
        let answer = tunnel.response.headers().get("anabranch-flow").map(|value| value.to_str().unwrap());
        assert_eq!(answer, agreed, "{asked}");
    }
    let mut plain = udp(&connection, &address, &[]).await;
    assert!(!plain.response.headers().contains_key("anabranch-flow"));
    // Without the field, the context ID of copies is unknown, so the datagram is dropped (RFC 9298 §5).
    let datagrams = plain.receive.datagrams();
    datagrams.send(b"\x02\0\0\0\0numbered").unwrap();
    datagrams.send(b"\0plain").unwrap();
    let mut buffer = [0; 100];
    let (len, _) = within(target.recv_from(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..len], b"plain");
    plain.send.finish().unwrap();
    // A request for TCP has no terms of a flow.
    let request = Request::connect(address).header("anabranch-flow", "copies").body(()).unwrap();
    let (_send, mut receive) = within(connection.request(request)).await.unwrap();
    assert!(!within(receive.response()).await.unwrap().headers().contains_key("anabranch-flow"));
}
