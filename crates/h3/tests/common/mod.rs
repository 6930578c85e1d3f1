//! A client and a server of the h3 crate over the loopback interface.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "part of tests")]

use anabranch::TransportConfig;
use anabranch_h3::{BidiStream, Connection, OpenStreams};
pub use anabranch_testkit::endpoints::within;
use anabranch_testkit::endpoints::{self, Connected, Pair};
pub use anabranch_testkit::pattern;
use bytes::{Buf, Bytes};
use http::{Request, Response};

pub type ClientStream = h3::client::RequestStream<BidiStream<Bytes>, Bytes>;
pub type ServerStream = h3::server::RequestStream<BidiStream<Bytes>, Bytes>;
pub type ServerConnection = h3::server::Connection<Connection, Bytes>;
pub type Requests = h3::client::SendRequest<OpenStreams, Bytes>;

/// Returns both sides of one connection before h3 begins, and their endpoints.
pub async fn pair(transport: TransportConfig) -> Connected {
    endpoints::connected(&Pair::speaking("h3").transport(transport)).await
}

/// Returns a client and a server. A task drives the client's connection until its last request.
pub async fn connected() -> (Requests, ServerConnection, Connected) {
    let pair = pair(TransportConfig::default()).await;
    let (mut driver, requests) = h3::client::new(Connection::new(pair.ours.clone())).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let server = h3::server::Connection::new(Connection::new(pair.theirs.clone())).await.unwrap();
    (requests, server, pair)
}

/// Runs `answer` for each request, concurrently.
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

/// Reads a response's whole body.
pub async fn body(stream: &mut ClientStream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(mut data) = within(stream.recv_data()).await.unwrap() {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    body
}
