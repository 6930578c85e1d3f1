//! Requests and responses of the h3 crate over anabranch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::time::Duration;

use anabranch::TransportConfig;
use anabranch_h3::Connection;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, StatusCode};

use self::common::{Requests, ServerStream, body, connected, get, ok, pair, pattern, serve, within};

#[tokio::test]
async fn get_is_answered() {
    let (mut requests, server, _pair) = connected().await;
    serve(server, |request, mut stream| async move {
        assert_eq!(request.method(), "GET");
        stream.send_response(ok()).await.unwrap();
        stream.send_data(Bytes::from(request.uri().path().to_owned())).await.unwrap();
        stream.finish().await.unwrap();
    });
    let mut stream = within(requests.send_request(get("/a/path"))).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(within(stream.recv_response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(body(&mut stream).await, b"/a/path");
}

/// Echoes the request's body and its trailers.
async fn echo(_: Request<()>, mut stream: ServerStream) {
    stream.send_response(ok()).await.unwrap();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        stream.send_data(data.copy_to_bytes(data.remaining())).await.unwrap();
    }
    if let Some(trailers) = stream.recv_trailers().await.unwrap() {
        stream.send_trailers(trailers).await.unwrap();
    }
    stream.finish().await.unwrap();
}

/// The body exceeds all windows, so that writing must wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn post_with_a_large_body_and_trailers() {
    let (mut requests, server, _pair) = connected().await;
    serve(server, echo);
    let data = Bytes::from(pattern(20 << 20));
    let request = Request::post("https://localhost/echo").body(()).unwrap();
    let (mut send, mut receive) = within(requests.send_request(request)).await.unwrap().split();
    let sent = data.clone();
    let sending = tokio::spawn(async move {
        for piece in 0..20 {
            send.send_data(sent.slice(piece << 20..(piece + 1) << 20)).await.unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("checked", "yes".parse().unwrap());
        send.send_trailers(trailers).await.unwrap();
        send.finish().await.unwrap();
    });
    assert_eq!(within(receive.recv_response()).await.unwrap().status(), StatusCode::OK);
    let mut at = 0;
    while let Some(mut piece) = within(receive.recv_data()).await.unwrap() {
        let piece = piece.copy_to_bytes(piece.remaining());
        assert_eq!(piece, data[at..at + piece.len()]);
        at += piece.len();
    }
    assert_eq!(at, data.len());
    let trailers = within(receive.recv_trailers()).await.unwrap().unwrap();
    assert_eq!(trailers["checked"], "yes");
    within(sending).await.unwrap();
}

/// Sends more requests than may be open at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once() {
    const REQUESTS: usize = 500;
    let (requests, server, _pair) = connected().await;
    serve(server, |request, mut stream| async move {
        // Each clone of `requests` ends its request with a frame of a reserved type, which cannot be sent on a
        // stopped stream.
        assert!(stream.recv_data().await.unwrap().is_none());
        stream.send_response(ok()).await.unwrap();
        stream.send_data(Bytes::from(request.uri().path().to_owned())).await.unwrap();
        stream.finish().await.unwrap();
    });
    let ask = |n: usize| {
        let mut requests = requests.clone();
        tokio::spawn(async move {
            let path = format!("/{n}");
            let mut stream = requests.send_request(get(&path)).await.unwrap();
            stream.finish().await.unwrap();
            assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
            assert_eq!(body(&mut stream).await, path.as_bytes());
        })
    };
    for task in (0..REQUESTS).map(ask).collect::<Vec<_>>() {
        within(task).await.unwrap();
    }
}

/// A server that has answered drops the request before the client finishes it.
#[tokio::test]
async fn a_request_is_finished_after_its_answer() {
    let pair = pair(TransportConfig::default()).await;
    // Without frames of reserved types, which `finish` writes first.
    let mut client = h3::client::builder();
    let client = client.send_grease(false).build(Connection::new(pair.ours.clone()));
    let (mut driver, mut requests): (_, Requests) = client.await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let server = h3::server::Connection::new(Connection::new(pair.theirs.clone())).await.unwrap();
    serve(server, |_, mut stream| async move {
        stream.send_response(ok()).await.unwrap();
        stream.finish().await.unwrap();
    });
    let mut stream = within(requests.send_request(get("/"))).await.unwrap();
    assert_eq!(within(stream.recv_response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(body(&mut stream).await, b"");
    // The STOP_SENDING follows the response.
    tokio::time::sleep(Duration::from_millis(50)).await;
    within(stream.finish()).await.unwrap();
}

#[cfg(feature = "datagram")]
#[tokio::test]
async fn datagrams_go_both_ways() {
    use h3_datagram::datagram_handler::HandleDatagramsExt;

    let pair = pair(TransportConfig::default()).await;
    let mut client = h3::client::builder();
    let client = client.enable_datagram(true).build(Connection::new(pair.ours.clone()));
    let (client, mut requests): (_, Requests) = client.await.unwrap();
    let mut server = h3::server::builder();
    let server = server.enable_datagram(true).build(Connection::new(pair.theirs.clone()));
    let mut server: common::ServerConnection = server.await.unwrap();

    let stream = within(requests.send_request(get("/"))).await.unwrap();
    let accepted = within(server.accept()).await.unwrap().unwrap();
    let (_request, accepted) = within(accepted.resolve_request()).await.unwrap();
    assert_eq!(stream.id(), accepted.id());

    let mut to_server = client.get_datagram_sender(stream.id());
    to_server.send_datagram(Bytes::from_static(b"ping")).unwrap();
    let mut reader = server.get_datagram_reader();
    let heard = within(reader.read_datagram()).await.unwrap();
    assert_eq!((heard.stream_id(), &heard.into_payload()[..]), (stream.id(), &b"ping"[..]));
    server.get_datagram_sender(accepted.id()).send_datagram(Bytes::from_static(b"pong")).unwrap();
    let mut reader = client.get_datagram_reader();
    assert_eq!(&within(reader.read_datagram()).await.unwrap().into_payload()[..], b"pong");

    let too_large = to_server.send_datagram(Bytes::from(vec![0; 100_000]));
    // The variants of the error are private to the h3-datagram crate.
    assert_eq!(too_large.unwrap_err().to_string(), "Datagram is too large");
}
