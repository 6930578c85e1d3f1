//! UDP flows through a proxy.

use anabranch::http3::Config;
use anabranch::proxy::FlowTerms;
use anabranch::proxy::client::{SendPayloadError, TunnelError, UdpTunnel};
use anabranch_testkit::pattern;

use super::support::{Setting, Site, target, within};

async fn flow(site: &Site) -> UdpTunnel {
    within(site.proxy().udp(&target("echo.test:7"))).await.unwrap()
}

#[tokio::test]
async fn payloads_pass_both_ways_and_the_largest_is_known() {
    let site = Site::start();
    let mut flow = flow(&site).await;
    let max = flow.max_payload();
    assert!((1_100..1_500).contains(&max), "{max}");
    for len in [0, 1, 1_000, max] {
        let payload = pattern(len);
        flow.send(&payload).unwrap();
        assert_eq!(within(flow.recv()).await.unwrap().unwrap(), payload);
    }
    let too_large = pattern(max + 200);
    let max_of = |error| match error {
        SendPayloadError::TooLarge { len, max } => (len, max),
        error => panic!("{error}"),
    };
    let (len, told) = max_of(flow.send(&too_large).unwrap_err());
    assert_eq!(len, max + 200);
    // The path MTU may have grown meanwhile.
    assert!(told >= max && told < len, "{told} {max}");
    assert!(max_of(flow.send(&pattern(70_000)).unwrap_err()).1 < 65_527);
    flow.send(b"end").unwrap();
    assert_eq!(within(flow.recv()).await.unwrap(), None);
}

#[tokio::test]
async fn capsules_replace_datagrams_that_the_proxy_does_not_support() {
    let http3 = Config::default().with_h3_datagram(false);
    let site = Site::with(Setting { http3, ..Setting::default() });
    let mut flow = flow(&site).await;
    // Capsules are not limited by the size of packets.
    assert_eq!(flow.max_payload(), 65_527);
    for len in [0, 1, 1_000, 65_527] {
        let payload = pattern(len);
        flow.send(&payload).unwrap();
        assert_eq!(within(flow.recv()).await.unwrap().unwrap(), payload);
    }
    assert!(matches!(flow.send(&pattern(65_528)), Err(SendPayloadError::TooLarge { max: 65_527, .. })));

    // A payload is dropped as a whole if the stream has no room for it. The others arrive whole and in order.
    let (sender, mut receiver) = flow.split();
    let mut sent = Vec::new();
    for n in 0..200_000_u32 {
        match sender.send(&[&n.to_be_bytes()[..], &pattern(10_000)].concat()) {
            Ok(()) => sent.push(n),
            Err(SendPayloadError::Full) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent.len() > 10 && sent.len() < 200_000, "{}", sent.len());
    for n in sent {
        let payload = within(receiver.recv()).await.unwrap().unwrap();
        assert_eq!((&payload[..4], payload.len()), (&n.to_be_bytes()[..], 10_004));
    }
    drop(sender);
}

#[tokio::test]
async fn a_proxy_without_extended_connect_carries_no_udp() {
    let http3 = Config::default().with_enable_connect_protocol(false);
    let site = Site::with(Setting { http3, ..Setting::default() });
    let error = within(site.proxy().udp(&target("echo.test:7"))).await.unwrap_err();
    assert!(matches!(error, TunnelError::NoUdp), "{error}");
    // A proxy with extended CONNECT may refuse CONNECT-UDP.
    let error = within(Site::start().proxy().udp(&target("none.test:7"))).await.unwrap_err();
    assert!(matches!(error, TunnelError::NoUdp), "{error}");
}

#[tokio::test]
async fn a_proxy_that_removes_no_duplicates_receives_none() {
    let site = Site::start();
    let terms = FlowTerms::default().with_copies();
    let mut flow = within(site.proxy().udp_with(&target("echo.test:7"), terms)).await.unwrap();
    assert!(!flow.has_copies());
    for n in 0..20 {
        flow.send(&[n]).unwrap();
        assert_eq!(within(flow.recv()).await.unwrap().unwrap(), [n][..]);
    }
    flow.send(b"end").unwrap();
    assert_eq!(within(flow.recv()).await.unwrap(), None);
}
