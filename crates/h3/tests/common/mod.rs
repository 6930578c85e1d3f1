//! A client and a server of the h3 crate over the loopback interface.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "part of tests")]

use std::sync::Arc;
use std::time::Duration;

use anabranch::{Endpoint, SelfSigned, TransportConfig, config};
use anabranch_h3::{BidiStream, Connection, OpenStreams};
use bytes::{Buf, Bytes};
use http::{Request, Response};

pub type ClientStream = h3::client::RequestStream<BidiStream<Bytes>, Bytes>;
pub type ServerStream = h3::server::RequestStream<BidiStream<Bytes>, Bytes>;
pub type ServerConnection = h3::server::Connection<Connection, Bytes>;
pub type Requests = h3::client::SendRequest<OpenStreams, Bytes>;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two ends of one connection before h3 begins, and the endpoints that carry them.
pub struct Pair {
    pub client: anabranch::Connection,
    pub server: anabranch::Connection,
    endpoints: [Endpoint; 2],
}

pub async fn pair(transport: TransportConfig) -> Pair {
    let transport = Arc::new(transport);
    let identity = SelfSigned::new(["localhost"]).unwrap();
    let server_config = identity.server_config(["h3"]).unwrap().with_transport(Arc::clone(&transport));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let client_config = config::client(identity.roots().unwrap(), ["h3"]).unwrap().with_transport(transport);
    client.set_default_client_config(client_config);
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(connecting, accepting) }).await;
    Pair { client: ours.unwrap(), server: theirs, endpoints: [client, server] }
}

/// Returns a client whose connection is driven until its last request, and a server.
pub async fn connected() -> (Requests, ServerConnection, Pair) {
    let pair = pair(TransportConfig::default()).await;
    let (mut driver, requests) = h3::client::new(Connection::new(pair.client.clone())).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let server = h3::server::Connection::new(Connection::new(pair.server.clone())).await.unwrap();
    (requests, server, pair)
}

/// Runs `answer` for each request, all at the same time.
pub fn serve<F: Future<Output = ()> + Send>(
    mut server: ServerConnection,
    answer: impl Fn(Request<()>, ServerStream) -> F + Copy + Send + 'static,
) {
    tokio::spawn(async move {
        while let Ok(Some(resolver)) = server.accept().await {
            tokio::spawn(async move {
                let (request, stream) = resolver.resolve_request().await.unwrap();
                answer(request, stream).await;
            });
        }
    });
}

pub fn get(path: &str) -> Request<()> {
    Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

pub fn ok() -> Response<()> {
    Response::new(())
}

/// Reads all of a response's body.
pub async fn body(stream: &mut ClientStream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(mut data) = within(stream.recv_data()).await.unwrap() {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    body
}

/// Fails a test that hangs.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the test hangs")
}

/// Returns bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
