//! Pairs of endpoints on the loopback interface.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "part of tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{ClientConfig, Connection, Endpoint, SelfSigned, ServerConfig, TransportConfig, config, tls};

/// Protocol of all tests.
pub const ALPN: [&str; 1] = ["test"];

/// Longer than anything here takes on a machine that has ten times as much to do as it can.
pub const PATIENCE: Duration = Duration::from_secs(180);

pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Configurations that trust each other.
pub struct Pair {
    pub identity: SelfSigned,
    pub client: ClientConfig,
    pub server: ServerConfig,
}

impl Pair {
    /// Creates a pair whose ends both accept early data.
    pub fn new() -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let client = config::client(identity.roots().unwrap(), ALPN).unwrap();
        let server = server_config(&identity);
        Self { identity, client, server }
    }

    /// Returns a server with the same certificate that remembers nothing.
    pub fn another_server(&self) -> ServerConfig {
        server_config(&self.identity)
    }

    /// Creates a pair whose ends both have this transport configuration.
    pub fn with_transport(transport: TransportConfig) -> Self {
        let mut pair = Self::new();
        let transport = Arc::new(transport);
        pair.client = pair.client.with_transport(Arc::clone(&transport));
        pair.server = pair.server.with_transport(transport);
        pair
    }

    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        let server = Endpoint::server(self.server.clone(), loopback()).unwrap();
        (self.client(), server)
    }

    pub fn client(&self) -> Endpoint {
        let mut client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(self.client.clone());
        client
    }
}

fn server_config(identity: &SelfSigned) -> ServerConfig {
    let tls = tls::ServerConfig::builder()
        .certificate(vec![identity.certificate().clone()], identity.key())
        .alpn(ALPN)
        .early_data(true)
        .build()
        .unwrap();
    ServerConfig::new(tls)
}

/// Two ends of one connection, and their endpoints.
pub struct Connected {
    pub client: Endpoint,
    pub server: Endpoint,
    pub ours: Connection,
    pub theirs: Connection,
}

pub async fn connected(pair: &Pair) -> Connected {
    let (client, server) = pair.endpoints();
    let (ours, theirs) = connect(&client, &server).await;
    Connected { client, server, ours, theirs }
}

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

/// Returns bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
