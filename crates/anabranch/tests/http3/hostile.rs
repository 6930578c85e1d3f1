//! Clients that write HTTP/3 frames by hand, for a server that reads bodies at its own pace.

use std::future::pending;
use std::time::Duration;

use anabranch::http3::{Body, Code, Error};
use anabranch::{ConnectionError, SendStream};
use http::Request;

use super::support::{Site, full, within};

/// Header section of a POST request for <https://localhost/>, with entries of the static table.
const HEADERS: &[u8] = b"\x01\x10\0\0\xd4\xd7\xc1\x50\x09localhost";

/// Opens a connection and its control stream, and sends a request's header section.
async fn begin(site: &Site) -> (anabranch::Connection, SendStream, SendStream, anabranch::RecvStream) {
    let quic = site.connect_quic().await;
    let mut control = within(quic.open_uni()).await.unwrap();
    control.write_all(b"\0\x04\0").await.unwrap();
    let (mut send, receive) = within(quic.open_bi()).await.unwrap();
    send.write_all(HEADERS).await.unwrap();
    (quic, control, send, receive)
}

#[tokio::test]
async fn a_fault_that_a_reader_finds_ends_the_connection_at_once() {
    let site = Site::new();
    site.serve(|request: Request<Body>| async move {
        let mut body = request.into_body();
        body.read_to_end(1 << 20).await.unwrap_err();
        pending::<()>().await;
        drop(body);
        Ok::<_, Error>(full("never"))
    });
    let (quic, _control, mut send, _receive) = begin(&site).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Sends a SETTINGS frame, which a request stream must not contain. Another packet follows, so that the
    // server has no acknowledgment left to send later.
    send.write_all(b"\x04\0").await.unwrap();
    tokio::task::yield_now().await;
    quic.ping();
    let end = tokio::time::timeout(Duration::from_secs(5), quic.closed()).await;
    let Ok(ConnectionError::PeerApplication { code, .. }) = end else { panic!("{end:?}") };
    assert_eq!(Code::from(code), Code::FRAME_UNEXPECTED);
}

#[tokio::test]
async fn credit_for_what_is_skipped_returns() {
    const SKIPPED: u32 = 40_000_000;
    let site = Site::new();
    site.serve(|request: Request<Body>| async move {
        let body = request.into_body().read_to_end(100).await?;
        Ok(full(body))
    });
    let (_quic, _control, mut send, mut receive) = begin(&site).await;
    // A frame of a reserved type, much longer than any window, and then the body.
    send.write_all(&[&[0x21][..], &(0x8000_0000 | SKIPPED).to_be_bytes()].concat()).await.unwrap();
    let sending = async {
        send.write_all(&vec![0; SKIPPED as usize]).await.unwrap();
        send.write_all(b"\0\x02hi").await.unwrap();
        send.finish().unwrap();
    };
    tokio::time::timeout(Duration::from_secs(20), sending).await.expect("the window stays closed");
    let answer = within(receive.read_to_end(1_000)).await.unwrap();
    assert!(answer.ends_with(b"hi"), "{answer:?}");
}
