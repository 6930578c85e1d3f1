//! CONNECT, extended CONNECT and datagrams.

use std::future::ready;

use anabranch::SendDatagramError;
use anabranch::http3::{Code, Config, Datagrams, Error, Protocol};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};

use super::support::{Site, full, text, within, written};

/// Serves CONNECT with a tunnel that echoes everything.
fn serve_tunnels(site: &Site) {
    site.serve(|request| {
        assert_eq!(request.method(), Method::CONNECT);
        ready(Ok(Response::new(request.into_body())))
    });
}

#[tokio::test]
async fn connect_is_a_tunnel_in_both_directions() {
    let site = Site::new();
    serve_tunnels(&site);
    let connection = site.connect().await;
    let request = Request::connect("other.example:443").body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    for word in ["ping", "pong"] {
        send.write(Bytes::from(word)).await.unwrap();
        assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), word);
    }
    send.finish().unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap(), None);
}

#[tokio::test]
async fn extended_connect_through_the_client() {
    let site = Site::new();
    serve_tunnels(&site);
    let (mut sender, body) = written();
    let mut request = Request::connect(site.url("/chat")).body(body).unwrap();
    request.extensions_mut().insert(Protocol::WEBSOCKET);
    let mut response = within(site.client().request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    sender.send_data(Bytes::from("hello")).await.unwrap();
    assert_eq!(within(response.body_mut().read_chunk(100)).await.unwrap().unwrap(), "hello");
    drop(sender);
    assert_eq!(within(response.body_mut().read_chunk(100)).await.unwrap(), None);
}

#[tokio::test]
async fn services_see_the_protocol_and_the_path() {
    let site = Site::new();
    site.serve(|request| {
        let protocol = request.extensions().get::<Protocol>().map(|protocol| protocol.as_str().to_owned());
        let seen = format!("{} {protocol:?}", request.uri().path());
        let mut response = full(seen);
        *response.status_mut() = StatusCode::FORBIDDEN;
        ready(Ok(response))
    });
    let (_sender, body) = written();
    let mut request = Request::connect(site.url("/chat?room=1")).body(body).unwrap();
    request.extensions_mut().insert(Protocol::WEBSOCKET);
    let response = within(site.client().request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(text(response).await, "/chat Some(\"websocket\")");
}

#[tokio::test]
async fn extended_connect_needs_a_server_that_knows_it() {
    let site = Site::new();
    let config = Config::default().with_enable_connect_protocol(false);
    let accepting = async { site.endpoint.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(site.connect(), accepting) }).await;
    let _theirs = anabranch::http3::Connection::new(theirs, config);
    let mut request = Request::connect(site.url("/chat")).body(()).unwrap();
    request.extensions_mut().insert(Protocol::WEBSOCKET);
    let error = within(ours.request(request)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn datagrams_belong_to_their_request() {
    let site = Site::new();
    site.serve(|request| {
        let datagrams = request.extensions().get::<Datagrams>().unwrap().clone();
        tokio::spawn(async move {
            while let Ok(message) = datagrams.recv().await {
                datagrams.send(&[&b"echo of "[..], &message].concat()).unwrap();
            }
        });
        ready(Ok(Response::new(request.into_body())))
    });
    let connection = site.connect().await;
    let mut tunnels = Vec::new();
    for name in ["one", "two"] {
        let mut request = Request::connect(site.url("/masque")).body(()).unwrap();
        request.extensions_mut().insert(Protocol::CONNECT_UDP);
        let (send, mut receive) = within(connection.request(request)).await.unwrap();
        assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
        tunnels.push((name, send, receive));
    }
    for (name, send, receive) in &tunnels {
        send.datagrams().send(name.as_bytes()).unwrap();
        let answer = within(receive.datagrams().recv()).await.unwrap();
        assert_eq!(answer, format!("echo of {name}"));
    }
    let too_large = vec![0; 70_000];
    assert_eq!(tunnels[0].1.datagrams().send(&too_large), Err(SendDatagramError::TooLarge));
    connection.close();
    assert!(within(tunnels[0].1.datagrams().recv()).await.is_err());
}

#[tokio::test]
async fn handlers_of_other_methods_have_no_datagrams() {
    let site = Site::new();
    site.serve(|request| ready(Ok(full(request.extensions().get::<Datagrams>().is_some().to_string()))));
    let client = site.client();
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "false");
    assert_eq!(text(within(client.post(&site.url("/"), "body")).await.unwrap()).await, "false");
    let connection = site.connect().await;
    let request = Request::connect("other.example:443").body(()).unwrap();
    let (_send, mut receive) = within(connection.request(request)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "true");
}

/// A datagram for a request whose method has none ends that request only.
#[tokio::test]
async fn a_datagram_for_a_post_ends_it() {
    let site = Site::new();
    site.serve(|request| ready(Ok(Response::new(request.into_body()))));
    let connection = site.connect().await;
    let request = Request::post(site.url("/")).body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    send.write(Bytes::from("half")).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "half");
    assert_eq!(send.datagrams().send(b"x"), Err(SendDatagramError::UnsupportedByPeer));
    // The quarter stream ID of the first request is 0.
    connection.quic().send_datagram(Bytes::from_static(b"\0x")).unwrap();
    let error = within(receive.read_chunk(100)).await.unwrap_err();
    assert!(matches!(error, Error::Reset(Code::DATAGRAM_ERROR)), "{error:?}");
    let mut other = within(connection.request_without_body(site.get("/"))).await.unwrap();
    assert_eq!(within(other.response()).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn nobody_waits_for_datagrams_of_a_request_that_is_over() {
    let site = Site::new();
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    site.serve(move |request| {
        let datagrams = request.extensions().get::<Datagrams>().unwrap().clone();
        let ended = ended.clone();
        tokio::spawn(async move { ended.send(datagrams.recv().await).unwrap() });
        ready(Ok(Response::new(request.into_body())))
    });
    let connection = site.connect().await;
    let request = Request::connect("other.example:443").body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    let datagrams = receive.datagrams();
    let waiting = tokio::spawn(async move { datagrams.recv().await });
    send.finish().unwrap();
    assert!(within(ends.recv()).await.unwrap().is_err());
    assert_eq!(within(receive.read_chunk(100)).await.unwrap(), None);
    assert!(within(waiting).await.unwrap().is_err());
    assert!(connection.quic().close_reason().is_none());
}
