//! Messages of a proxy that violate RFC 9297.

use std::future::Future;
use std::io::ErrorKind;

use anabranch::http3::{Code, Config, Error, RecvHalf, SendHalf};
use anabranch::proxy::client::TunnelError;
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::mpsc::UnboundedReceiver;

use super::support::{Received, by_hand, target, within};

/// Fields that describe content, which no message with capsules has.
const CONTENT: [&str; 3] = ["content-length", "content-type", "transfer-encoding"];

fn assert_no_content_fields(request: &Request<()>) {
    assert_eq!(request.headers()["capsule-protocol"], "?1");
    assert!(CONTENT.iter().all(|name| !request.headers().contains_key(*name)), "{request:?}");
}

/// Opens a tunnel whose request the proxy answers with `response`.
async fn open<T>(
    opening: impl Future<Output = Result<T, TunnelError>>,
    requests: &mut UnboundedReceiver<Received>,
    response: Response<()>,
) -> (Result<T, TunnelError>, SendHalf, RecvHalf) {
    let answering = async {
        let (request, mut send, receive) = requests.recv().await.unwrap();
        assert_no_content_fields(&request);
        send.send_response(response).unwrap();
        (send, receive)
    };
    let (opened, (send, receive)) = within(async { tokio::join!(opening, answering) }).await;
    (opened, send, receive)
}

/// Checks that the client has reset its direction because a message of the proxy is malformed.
async fn assert_reset(receive: &mut RecvHalf) {
    let error = within(receive.read_chunk(100)).await.unwrap_err();
    assert!(matches!(error, Error::Reset(Code::MESSAGE_ERROR)), "{error:?}");
}

#[tokio::test]
async fn a_flow_that_ends_inside_a_capsule_has_failed() {
    let (proxy, mut requests) = by_hand(Config::default().with_h3_datagram(false));
    for (bytes, whole) in [(&b"\0\x04\0cut"[..4], false), (b"\0\x04\0cut", true), (b"\x17", false)] {
        let target = target("a.test:7");
        let (flow, mut send, mut receive) = open(proxy.udp(&target), &mut requests, Response::new(())).await;
        let mut flow = flow.unwrap();
        send.write(Bytes::from_static(bytes)).await.unwrap();
        send.finish().unwrap();
        if whole {
            assert_eq!(within(flow.recv()).await.unwrap().unwrap(), "cut");
            assert_eq!(within(flow.recv()).await.unwrap(), None);
        } else {
            assert_eq!(within(flow.recv()).await.unwrap_err().kind(), ErrorKind::InvalidData, "{bytes:?}");
            assert_reset(&mut receive).await;
            assert!(flow.send(b"more").is_err());
        }
    }
}

#[tokio::test]
async fn wrong_capsules_end_a_tunnel_for_packets() {
    let (proxy, mut requests) = by_hand(Config::default());
    // An ADDRESS_ASSIGN of IP version 9, a ROUTE_ADVERTISEMENT that is cut, and a capsule that is too long.
    for bytes in [&[1, 3, 0, 9, 0][..], &[3, 2, 4, 1], &[1, 0x80, 1, 0, 1]] {
        let (tunnel, mut send, mut receive) = open(proxy.ip(), &mut requests, Response::new(())).await;
        let (_sender, mut tunnel) = tunnel.unwrap().split();
        send.write(Bytes::from_static(bytes)).await.unwrap();
        assert_eq!(within(tunnel.recv()).await.unwrap_err().kind(), ErrorKind::InvalidData, "{bytes:?}");
        assert_reset(&mut receive).await;
        let stopped = within(send.stopped()).await;
        assert!(matches!(stopped, Error::Stopped(Code::MESSAGE_ERROR)), "{bytes:?}: {stopped:?}");
    }
    // The stream ends between capsules, and inside one.
    for (bytes, whole) in [(&[0x17, 1, 0][..], true), (&[0x17, 1], false)] {
        let (tunnel, mut send, mut receive) = open(proxy.ip(), &mut requests, Response::new(())).await;
        let (_sender, mut tunnel) = tunnel.unwrap().split();
        send.write(Bytes::from_static(bytes)).await.unwrap();
        send.finish().unwrap();
        match within(tunnel.recv()).await {
            Ok(end) => assert!(whole && end.is_none(), "{bytes:?}: {end:?}"),
            Err(error) => {
                assert!(!whole && error.kind() == ErrorKind::InvalidData, "{bytes:?}: {error:?}");
                assert_reset(&mut receive).await;
            }
        }
    }
}

#[tokio::test]
async fn responses_that_cannot_have_capsules_are_refused() {
    let (proxy, mut requests) = by_hand(Config::default());
    let response = |status: u16| Response::builder().status(status);
    for (response, valid) in [
        (response(200), true),
        (response(202), true),
        (response(204), false),
        (response(205), false),
        (response(206), false),
        (response(200).header("content-length", "0"), false),
        (response(200).header("content-type", "text/plain"), false),
    ] {
        let response = response.body(()).unwrap();
        let told = format!("{response:?}");
        let target = target("a.test:7");
        let (flow, mut send, mut receive) = open(proxy.udp(&target), &mut requests, response).await;
        match flow {
            Ok(_) => assert!(valid, "{told}"),
            Err(TunnelError::Http3(Error::Malformed(Code::MESSAGE_ERROR))) => {
                assert!(!valid, "{told}");
                assert_reset(&mut receive).await;
                let stopped = within(send.stopped()).await;
                assert!(matches!(stopped, Error::Stopped(Code::MESSAGE_ERROR)), "{told}: {stopped:?}");
            }
            Err(error) => panic!("{told}: {error}"),
        }
    }
}
