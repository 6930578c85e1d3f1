//! Requests in early data (RFC 8470).

use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::{Client, ConnectionInfo};
use http::Request;

use super::support::{Site, full, text, within};

/// A server that says whether requests are early data, and a client that has met it.
async fn acquainted() -> (Site, Client) {
    let site = Site::new();
    site.serve(|request| async move {
        let info = *request.extensions().get::<ConnectionInfo>().unwrap();
        Ok(full(if info.early_data { "early" } else { "in time" }))
    });
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Client::builder(endpoint, site.client_config()).early_data(true).build();
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "in time");
    let connection = within(client.connection(&site.url("/"))).await.unwrap();
    // The ticket comes after the handshake.
    within(connection.quic().confirmed()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    connection.close();
    (site, client)
}

#[tokio::test]
async fn safe_requests_may_be_early() {
    let (site, client) = acquainted().await;
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "early");
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
    first.close(0, b"");
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
