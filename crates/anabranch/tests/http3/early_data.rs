//! Requests in early data (RFC 8470).

use anabranch::{Endpoint, TransportConfig, VarInt};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch::http3::{Client, ConnectionInfo};
use http::{Method, Request};
use tokio::net::UdpSocket;

use super::support::{Site, full, text, within};

/// Returns a server that reports whether requests are early data, and a client that has a session ticket of
/// this server.
async fn acquainted() -> (Site, Client) {
    let site = Site::new();
    site.serve(|request| async move {
        let info = *request.extensions().get::<ConnectionInfo>().unwrap();
        Ok(full(if info.early_data { "early" } else { "in time" }))
    });
    let client = acquaint(&site).await;
    (site, client)
}

/// Returns a client that has a session ticket of this server.
async fn acquaint(site: &Site) -> Client {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Client::builder(endpoint, site.client_config()).early_data(true).build();
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "in time");
    let connection = within(client.connection(&site.url("/"))).await.unwrap();
    // The ticket arrives after the handshake.
    within(connection.quic().confirmed()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    connection.close();
    client
}

#[tokio::test]
async fn safe_requests_may_be_early() {
    let (site, client) = acquainted().await;
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "early");
}

/// A server may answer 425 to early data (RFC 8470 §5.2). The request is sent again after the handshake.
#[tokio::test]
async fn too_early_is_asked_again() {
    let site = Site::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    site.serve(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        let early = request.extensions().get::<ConnectionInfo>().unwrap().early_data;
        let mut response = full("in time");
        if early {
            *response.status_mut() = http::StatusCode::TOO_EARLY;
        }
        async { Ok(response) }
    });
    let client = acquaint(&site).await;
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
    let response = within(client.get(&site.url("/"))).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(text(response).await, "in time");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_client_does_not_send_others_early() {
    let (site, client) = acquainted().await;
    let response = within(client.post(&site.url("/"), "buy")).await.unwrap();
    assert_eq!(text(response).await, "in time");
}

#[tokio::test]
async fn a_client_is_not_early_unless_it_wants_to_be() {
    let (site, _client) = acquainted().await;
    let client = site.client();
    for _ in 0..2 {
        assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "in time");
        within(client.connection(&site.url("/"))).await.unwrap().close();
    }
}

#[tokio::test]
async fn a_server_has_unsafe_requests_wait_for_the_handshake() {
    let (site, _client) = acquainted().await;
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.set_default_client_config(site.client_config());
    let first = within(endpoint.connect(site.address, "localhost").unwrap()).await.unwrap();
    within(first.confirmed()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    first.close(VarInt::from_u32(0), b"");
    let (quic, accepted) = endpoint.connect(site.address, "localhost").unwrap().into_0rtt().unwrap();
    let connection = anabranch::http3::Connection::new(quic, Default::default());
    let safe = within(connection.request_without_body(site.get("/"))).await.unwrap();
    let delete = Request::delete(site.url("/")).body(()).unwrap();
    let unsafe_one = within(connection.request_without_body(delete)).await.unwrap();
    for (mut receive, answer) in [(safe, "early"), (unsafe_one, "in time")] {
        assert_eq!(within(receive.response()).await.unwrap().status(), 200);
        assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), answer);
    }
    assert!(within(accepted).await);
}

/// Starts a relay to `server` and returns its address. It forwards datagrams to the server for a short time
/// and sends none back, as in a replay attack.
async fn one_way(server: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(tokio::time::timeout(Duration::from_millis(300), async move {
        let mut datagram = [0; 2_000];
        while let Ok((len, from)) = socket.recv_from(&mut datagram).await {
            if from != server {
                socket.send_to(&datagram[..len], server).await.unwrap();
            }
        }
    }));
    address
}

#[tokio::test]
async fn an_unsafe_request_of_a_handshake_that_fails_is_not_answered() {
    let transport = TransportConfig::default().with_max_idle_timeout(Duration::from_millis(100));
    let site = Site::with_transport(transport);
    let [safe, unsafe_ones] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&safe), Arc::clone(&unsafe_ones));
    site.serve(move |request| {
        let count = if request.method() == Method::GET { &counts.0 } else { &counts.1 };
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(full("done")) }
    });
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.set_default_client_config(site.client_config());
    let first = within(endpoint.connect(site.address, "localhost").unwrap()).await.unwrap();
    within(first.confirmed()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    first.close(VarInt::from_u32(0), b"");
    let address = one_way(site.address).await;
    let (quic, _) = endpoint.connect(address, "localhost").unwrap().into_0rtt().unwrap();
    let connection = anabranch::http3::Connection::new(quic, Default::default());
    let _safe = within(connection.request_without_body(site.get("/"))).await.unwrap();
    let delete = Request::delete(site.url("/")).body(()).unwrap();
    let _unsafe_one = within(connection.request_without_body(delete)).await.unwrap();
    // The connection of the simulated replay is the last one of the server.
    tokio::time::sleep(Duration::from_secs(1)).await;
    within(site.endpoint.wait_idle()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(safe.load(Ordering::SeqCst), 1, "the early data has arrived");
    assert_eq!(unsafe_ones.load(Ordering::SeqCst), 0);
}
