//! Pairs of endpoints on the loopback interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{ClientConfig, Connection, Endpoint, SelfSigned, ServerConfig, TransportConfig, config, tls};

/// Protocols of tests that have none of their own.
pub const ALPN: [&str; 1] = ["test"];

/// Time that no test takes on a machine that has ten times as much to do as it can.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Returns an address of the loopback interface whose port the system chooses.
pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns the configuration of a server that accepts early data.
pub fn server_config(identity: &SelfSigned, alpn: &str) -> ServerConfig {
    let tls = tls::ServerConfig::builder()
        .certificate(vec![identity.certificate().clone()], identity.key())
        .alpn([alpn])
        .early_data(true)
        .build()
        .unwrap();
    ServerConfig::new(tls)
}

/// Configurations that trust each other.
#[derive(Debug)]
pub struct Pair {
    /// The server's certificate.
    pub identity: SelfSigned,
    /// The client's configuration.
    pub client: ClientConfig,
    /// The server's configuration.
    pub server: ServerConfig,
    alpn: &'static str,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Creates a pair whose ends both accept early data.
    pub fn new() -> Self {
        Self::speaking(ALPN[0])
    }

    /// Creates a pair with this application protocol.
    pub fn speaking(alpn: &'static str) -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let client = config::client(identity.roots().unwrap(), [alpn]).unwrap();
        let server = server_config(&identity, alpn);
        Self { identity, client, server, alpn }
    }

    /// Creates a pair whose ends both have this transport configuration.
    pub fn with_transport(transport: TransportConfig) -> Self {
        Self::new().transport(transport)
    }

    /// Gives both ends this transport configuration.
    #[must_use]
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        let transport = Arc::new(transport);
        self.client = self.client.with_transport(Arc::clone(&transport));
        self.server = self.server.with_transport(transport);
        self
    }

    /// Returns a server with the same certificate that remembers nothing.
    pub fn another_server(&self) -> ServerConfig {
        server_config(&self.identity, self.alpn)
    }

    /// Binds the client's and the server's endpoint.
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        let server = Endpoint::server(self.server.clone(), loopback()).unwrap();
        (self.client(), server)
    }

    /// Binds a client's endpoint.
    pub fn client(&self) -> Endpoint {
        let mut client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(self.client.clone());
        client
    }
}

/// Two ends of one connection, and their endpoints.
#[derive(Debug)]
pub struct Connected {
    /// The client's endpoint.
    pub client: Endpoint,
    /// The server's endpoint.
    pub server: Endpoint,
    /// The client's end.
    pub ours: Connection,
    /// The server's end.
    pub theirs: Connection,
}

/// Connects new endpoints.
pub async fn connected(pair: &Pair) -> Connected {
    let (client, server) = pair.endpoints();
    let (ours, theirs) = connect(&client, &server).await;
    Connected { client, server, ours, theirs }
}

/// Connects `client` to `server`; returns the client's and the server's end.
pub async fn connect(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let address = server.local_addr().unwrap();
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(connecting, accepting) }).await;
    (ours.unwrap(), theirs)
}

/// Fails a test that hangs.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the test hangs")
}
