//! Pairs of endpoints on the loopback interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{ClientConfig, Connection, Endpoint, SelfSigned, ServerConfig, TransportConfig, config, tls};

/// Application protocols of tests that need no particular one.
pub const ALPN: [&str; 1] = ["test"];

/// Maximum duration of a test, even on a machine with ten times the load that it can handle.
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

/// Configurations of a client and a server. The client trusts the server.
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
    /// Creates a pair that supports early data on both sides.
    pub fn new() -> Self {
        Self::speaking(ALPN[0])
    }

    /// Creates a pair with the application protocol `alpn`.
    pub fn speaking(alpn: &'static str) -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let client = config::client(identity.roots().unwrap(), [alpn]).unwrap();
        let server = server_config(&identity, alpn);
        Self { identity, client, server, alpn }
    }

    /// Creates a pair that uses `transport` on both sides.
    pub fn with_transport(transport: TransportConfig) -> Self {
        Self::new().transport(transport)
    }

    /// Sets the transport configuration of both sides.
    #[must_use]
    pub fn transport(mut self, transport: TransportConfig) -> Self {
        let transport = Arc::new(transport);
        self.client = self.client.with_transport(Arc::clone(&transport));
        self.server = self.server.with_transport(transport);
        self
    }

    /// Returns the configuration of another server with the same certificate. It does not accept tickets of
    /// the first one.
    pub fn another_server(&self) -> ServerConfig {
        server_config(&self.identity, self.alpn)
    }

    /// Binds an endpoint for the client and one for the server.
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        let server = Endpoint::server(self.server.clone(), loopback()).unwrap();
        (self.client(), server)
    }

    /// Binds an endpoint for the client.
    pub fn client(&self) -> Endpoint {
        let mut client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(self.client.clone());
        client
    }
}

/// Both sides of one connection, and their endpoints.
#[derive(Debug)]
pub struct Connected {
    /// The client's endpoint.
    pub client: Endpoint,
    /// The server's endpoint.
    pub server: Endpoint,
    /// The client's side.
    pub ours: Connection,
    /// The server's side.
    pub theirs: Connection,
}

/// Creates the endpoints of `pair`, and connects them.
pub async fn connected(pair: &Pair) -> Connected {
    let (client, server) = pair.endpoints();
    let (ours, theirs) = connect(&client, &server).await;
    Connected { client, server, ours, theirs }
}

/// Connects `client` to `server`. Returns the connection of the client and that of the server.
pub async fn connect(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let address = server.local_addr().unwrap();
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = within(async { tokio::join!(connecting, accepting) }).await;
    (ours.unwrap(), theirs)
}

/// Waits for `future`, and panics if it takes longer than [`PATIENCE`].
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the test hangs")
}

/// Sends the data of each stream back until the connection ends.
pub fn serve(connection: Connection) {
    tokio::spawn(async move {
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let Ok(heard) = receive.read_to_end(1 << 20).await else { return };
            let _ = send.write_all(&heard).await;
        }
    });
}

/// Sends `data` on a new stream, and checks that it comes back.
pub async fn echo(connection: &Connection, data: &[u8]) {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(data).await.unwrap();
    send.finish().unwrap();
    assert!(within(receive.read_to_end(1 << 20)).await.unwrap() == data);
}
