//! A server, and clients that trust it.
#![allow(unreachable_pub, reason = "other files of the test use it")]

use std::net::SocketAddr;

use anabranch::http3::{Body, Client, Config, Connection, Error, Limits, Server};
use anabranch::{ClientConfig, Endpoint, SelfSigned, TransportConfig, config};
pub use anabranch_testkit::endpoints::{PATIENCE, within};
use anabranch_testkit::endpoints::{loopback, server_config};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};

/// A body that is written by the test.
pub type Written = Channel<Bytes, anabranch::Error>;

pub fn written() -> (Sender<Bytes, anabranch::Error>, Written) {
    Channel::new(4)
}

pub struct Site {
    pub identity: SelfSigned,
    pub endpoint: Endpoint,
    pub address: SocketAddr,
}

impl Site {
    pub fn new() -> Self {
        Self::with_transport(TransportConfig::default())
    }

    pub fn with_transport(transport: TransportConfig) -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let server = server_config(&identity, "h3").with_transport(transport);
        let endpoint = Endpoint::server(server, loopback()).unwrap();
        let address = endpoint.local_addr().unwrap();
        Self { identity, endpoint, address }
    }

    /// Starts a server that responds with `service`.
    pub fn serve<S, F, B>(&self, service: S)
    where
        S: FnMut(Request<Body>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<B>, Error>> + Send + 'static,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<anabranch::Error>,
    {
        self.serve_within(Limits::default(), service);
    }

    pub fn serve_within<S, F, B>(&self, limits: Limits, service: S)
    where
        S: FnMut(Request<Body>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<B>, Error>> + Send + 'static,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<anabranch::Error>,
    {
        let server = Server::new(self.endpoint.clone(), tower::service_fn(service));
        tokio::spawn(server.limits(limits).serve());
    }

    pub fn serve_router(&self, router: axum::Router) {
        tokio::spawn(Server::new(self.endpoint.clone(), router).serve());
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    pub fn client_config(&self) -> ClientConfig {
        config::client(self.identity.roots().unwrap(), ["h3"]).unwrap()
    }

    pub fn client(&self) -> Client {
        let endpoint = Endpoint::client(loopback()).unwrap();
        Client::new(endpoint, self.client_config())
    }

    /// Opens a QUIC connection without HTTP/3, for tests that write frames by hand.
    pub async fn connect_quic(&self) -> anabranch::Connection {
        self.connect_quic_with(self.client_config()).await
    }

    async fn connect_quic_with(&self, config: ClientConfig) -> anabranch::Connection {
        let mut endpoint = Endpoint::client(loopback()).unwrap();
        endpoint.set_default_client_config(config);
        within(endpoint.connect(self.address, "localhost").unwrap()).await.unwrap()
    }

    pub async fn connect(&self) -> Connection {
        Connection::new(self.connect_quic().await, Config::default())
    }

    /// Returns the client's and the server's side of a connection.
    pub async fn pair(&self) -> (Connection, Connection) {
        self.pair_with(self.client_config()).await
    }

    /// Returns the sides of a connection of a client with the configuration `config`.
    pub async fn pair_with(&self, config: ClientConfig) -> (Connection, Connection) {
        let accepting = async { self.endpoint.accept().await.unwrap().await.unwrap() };
        let connecting = self.connect_quic_with(config);
        let (ours, theirs) = within(async { tokio::join!(connecting, accepting) }).await;
        (Connection::new(ours, Config::default()), Connection::new(theirs, Config::default()))
    }

    pub fn get(&self, path: &str) -> Request<()> {
        Request::get(self.url(path)).body(()).unwrap()
    }
}

/// Reads a response's whole body as text.
pub async fn text(response: Response<Body>) -> String {
    let bytes = within(response.into_body().read_to_end(1 << 20)).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Creates a response with the body `body`.
pub fn full(body: impl Into<Bytes>) -> Response<http_body_util::Full<Bytes>> {
    Response::new(http_body_util::Full::new(body.into()))
}
