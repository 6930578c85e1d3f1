//! Error codes of streams and connections of the h3 crate over anabranch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::time::Duration;

use anabranch::{ConnectionError as Lost, TransportConfig};
use anabranch_h3::Connection;
use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{ConnectionErrorIncoming, SendStream as _};

use self::common::{ClientStream, ServerStream, connected, get, ok, pair, pattern, within};

/// Returns the error code with which the peer has ended its half of the stream.
#[track_caller]
fn remote_code<T>(result: Result<T, StreamError>) -> Code {
    match result {
        Err(StreamError::RemoteTerminate { code }) => code,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it went well"),
    }
}

/// Returns both sides of a request whose header section has arrived, and the handles that keep them alive.
async fn requested() -> (ClientStream, ServerStream, impl Sized) {
    let (mut requests, mut server, pair) = connected().await;
    let client = within(requests.send_request(get("/"))).await.unwrap();
    let resolver = within(server.accept()).await.unwrap().unwrap();
    let (_, stream) = within(resolver.resolve_request()).await.unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = server.accept().await {} });
    (client, stream, (requests, pair))
}

#[tokio::test]
async fn the_code_of_a_reset_arrives() {
    let (mut client, mut server, _alive) = requested().await;
    client.stop_stream(Code::H3_REQUEST_CANCELLED);
    assert_eq!(remote_code(within(server.recv_data()).await), Code::H3_REQUEST_CANCELLED);
    server.stop_stream(Code::H3_INTERNAL_ERROR);
    assert_eq!(remote_code(within(client.recv_response()).await), Code::H3_INTERNAL_ERROR);
}

#[tokio::test]
async fn the_code_of_a_stop_arrives_when_writing_and_when_finishing() {
    let (mut client, mut server, _alive) = requested().await;
    server.stop_sending(Code::H3_NO_ERROR);
    let code = within(async {
        loop {
            if let Err(error) = client.send_data(Bytes::from(pattern(100_000))).await {
                break remote_code(Err::<(), _>(error));
            }
        }
    });
    assert_eq!(code.await, Code::H3_NO_ERROR);

    client.stop_sending(Code::H3_REQUEST_REJECTED);
    server.send_response(ok()).await.unwrap_or(());
    let code = within(async {
        while server.send_data(Bytes::from(pattern(1_000))).await.is_ok() {
            tokio::task::yield_now().await;
        }
        remote_code(server.finish().await)
    });
    assert_eq!(code.await, Code::H3_REQUEST_REJECTED);
}

/// An incomplete frame must not end the stream with FIN, which would close the connection.
#[tokio::test]
async fn a_frame_that_was_given_up_resets_its_stream() {
    let (mut client, mut server, _alive) = requested().await;
    server.send_response(ok()).await.unwrap();
    assert!(within(client.recv_response()).await.unwrap().status().is_success());
    // The client does not read, so the write stops within the frame.
    let body = Bytes::from(pattern(100 << 20));
    assert!(tokio::time::timeout(Duration::from_millis(200), server.send_data(body)).await.is_err());
    drop(server);
    let code = within(async {
        loop {
            match client.recv_data().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the body has ended"),
                Err(error) => break remote_code(Err::<(), _>(error)),
            }
        }
    });
    assert_eq!(code.await, Code::H3_REQUEST_CANCELLED);
}

#[tokio::test]
async fn the_code_of_a_close_arrives() {
    let pair = pair(TransportConfig::default()).await;
    let (mut driver, _requests) = h3::client::new(Connection::new(pair.ours.clone())).await.unwrap();
    let mut server: h3::server::Connection<_, Bytes> =
        h3::server::Connection::new(Connection::new(pair.theirs.clone())).await.unwrap();
    let accepting = tokio::spawn(async move { server.accept().await.map(drop) });
    let mut closing = Connection::new(pair.ours.clone());
    h3::quic::OpenStreams::<Bytes>::close(&mut closing, Code::H3_EXCESSIVE_LOAD, b"too much");

    match within(accepting).await.unwrap() {
        Err(ConnectionError::Remote(ConnectionErrorIncoming::ApplicationClose { error_code })) => {
            assert_eq!(error_code, Code::H3_EXCESSIVE_LOAD.value());
        }
        other => panic!("{other:?}"),
    }
    let expected = Lost::PeerApplication {
        code: anabranch::VarInt::try_from(Code::H3_EXCESSIVE_LOAD.value()).unwrap(),
        reason: Bytes::from_static(b"too much"),
    };
    assert_eq!(pair.theirs.close_reason(), Some(expected));
    // h3 has no error for a close by this endpoint.
    match within(driver.wait_idle()).await {
        ConnectionError::Remote(ConnectionErrorIncoming::Undefined(inner)) => {
            assert_eq!(inner.to_string(), Lost::LocallyClosed.to_string());
        }
        other => panic!("{other:?}"),
    }
}

/// h3 closes a connection that violates HTTP/3, and the peer receives the error code.
#[tokio::test]
async fn a_fault_closes_with_the_code_of_http3() {
    let pair = pair(TransportConfig::default()).await;
    let mut server: h3::server::Connection<_, Bytes> =
        h3::server::Connection::new(Connection::new(pair.theirs.clone())).await.unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = server.accept().await {} });
    // A control stream that begins with another frame than SETTINGS (RFC 9114 §6.2.1).
    let mut control = pair.ours.open_uni().await.unwrap();
    control.write_all(&[0x00, 0x07, 0x01, 0x00]).await.unwrap();
    match within(pair.ours.closed()).await {
        Lost::PeerApplication { code, .. } => assert_eq!(code, Code::H3_MISSING_SETTINGS.value()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let transport = TransportConfig::default().with_max_idle_timeout(Duration::from_millis(500));
    let pair = pair(transport).await;
    let (mut driver, mut requests) = h3::client::new(Connection::new(pair.ours.clone())).await.unwrap();
    let mut stream = requests.send_request(get("/")).await.unwrap();
    assert!(matches!(within(driver.wait_idle()).await, ConnectionError::Timeout));
    match within(stream.recv_response()).await {
        Err(StreamError::ConnectionError(ConnectionError::Timeout)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn data_is_refused_until_the_stream_is_ready() {
    let pair = pair(TransportConfig::default()).await;
    let mut transport = Connection::new(pair.ours.clone());
    let open = std::future::poll_fn(|cx| h3::quic::OpenStreams::<Bytes>::poll_open_send(&mut transport, cx));
    let mut stream = within(open).await.unwrap();
    stream.send_data(h3::proto::stream::StreamType::grease()).unwrap();
    match stream.send_data(h3::proto::stream::StreamType::grease()) {
        Err(h3::quic::StreamErrorIncoming::Unknown(_)) => {}
        other => panic!("{other:?}"),
    }
    within(std::future::poll_fn(|cx| stream.poll_ready(cx))).await.unwrap();
    stream.send_data(h3::proto::stream::StreamType::grease()).unwrap();
}
