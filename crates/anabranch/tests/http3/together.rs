//! Packets that carry several things at once.

use anabranch::http3::Connection;
use anabranch::{AckConfig, TransportConfig};
use bytes::Bytes;
use http::{Request, Response};

use super::support::{Site, within};

const REQUESTS: u64 = 30;

/// Checks that the driver lets a task respond before it sends the acknowledgment of the request, which is due
/// because the request takes several packets.
#[tokio::test]
async fn responses_carry_the_acknowledgments_of_their_requests() {
    let site = Site::new();
    // With the rule of RFC 9000 §13.2.2 every second packet is acknowledged at once.
    let ack = AckConfig::default().with_frequency(false);
    let transport = TransportConfig::default().with_ack(ack);
    let (ours, theirs) = site.pair_with(site.client_config().with_transport(transport)).await;
    let sent = |side: &Connection| side.quic().stats().paths[0].recovery.sent_packets;
    let before = sent(&theirs);
    // A task of its own: the runtime polls the test's own future less often than the driver.
    let server = tokio::spawn(async move {
        for _ in 0..REQUESTS {
            let (_, mut half, mut body) = theirs.accept().await.unwrap().unwrap();
            while body.read_chunk(usize::MAX).await.unwrap().is_some() {}
            half.send_response(Response::new(())).unwrap();
            half.finish().unwrap();
        }
        theirs
    });
    let client = async {
        for _ in 0..REQUESTS {
            let request = Request::post(site.url("/")).body(()).unwrap();
            let (mut half, mut response) = ours.request(request).await.unwrap();
            half.write(Bytes::from(vec![7; 5_000])).await.unwrap();
            half.finish().unwrap();
            response.response().await.unwrap();
            while response.read_chunk(usize::MAX).await.unwrap().is_some() {}
        }
    };
    let (theirs, ()) = within(async { tokio::join!(server, client) }).await;
    let packets = sent(&theirs.unwrap()) - before;
    assert!(packets < REQUESTS * 3 / 2, "{packets} packets for {REQUESTS} responses");
}
