//! Server of a soak: it sends the data of each stream and each message back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{
    ClientConfig, Connection, Endpoint, Incoming, MultipathConfig, SelfSigned, TransportConfig, VarInt,
    config,
};
use tokio::task::JoinHandle;

use crate::Error;

/// Application protocol.
const ALPN: &str = "soak";
/// Maximum number of bytes that a client sends on a stream.
pub(super) const MAX_MESSAGE: usize = 512 * 1024;
/// Idle timeout of both ends, after which a connection ends whose CONNECTION_CLOSE was lost.
const IDLE: Duration = Duration::from_secs(5);

/// A server, and the configuration of its clients.
pub(super) struct Server {
    endpoint: Endpoint,
    accepting: JoinHandle<()>,
    pub(super) client: ClientConfig,
}

impl Server {
    /// Starts a server on the loopback interface. Must be called within a runtime.
    pub(super) fn start() -> Result<Self, Error> {
        let transport = TransportConfig::default()
            .with_multipath(MultipathConfig::default())
            .with_max_idle_timeout(Some(IDLE))
            .with_datagram_receive_buffer(64 * 1024);
        let transport = Arc::new(transport);
        let identity = SelfSigned::new(["localhost"]).map_err(|error| error.to_string())?;
        let server = identity.server_config([ALPN]).map_err(|error| error.to_string())?;
        let server = server.with_transport(Arc::clone(&transport));
        let roots = identity.roots().map_err(|error| error.to_string())?;
        let client = config::client(roots, [ALPN])?.with_transport(transport);
        let endpoint = Endpoint::server(server, ([127, 0, 0, 1], 0).into())?;
        let accepting = tokio::spawn(accept(endpoint.clone()));
        Ok(Self { endpoint, accepting, client })
    }

    pub(super) fn address(&self) -> Result<SocketAddr, Error> {
        Ok(self.endpoint.local_addr()?)
    }

    /// Returns the number of open connections.
    pub(super) fn connections(&self) -> usize {
        self.endpoint.open_connections()
    }

    /// Closes the server.
    pub(super) async fn end(self) {
        self.endpoint.close(VarInt::ZERO, b"");
        self.endpoint.wait_close_sent().await;
        // The task ends with the endpoint.
        let _ = self.accepting.await;
    }
}

async fn accept(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming));
    }
}

async fn serve(incoming: Incoming) {
    let Ok(connection) = incoming.await else { return };
    let messages = connection.clone();
    tokio::join!(streams(connection), async {
        while let Ok(message) = messages.read_datagram().await {
            // A full queue drops a message, as the network may.
            let _ = messages.send_datagram(message);
        }
    });
}

async fn streams(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // Clients reset and stop streams, and close connections meanwhile.
            let Ok(message) = receive.read_to_end(MAX_MESSAGE).await else { return };
            if send.write_all(&message).await.is_ok() {
                let _ = send.finish();
            }
        });
    }
}
