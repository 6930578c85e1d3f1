//! Endpoints, connections and their drivers in many orders of their tasks.

mod closing;
mod failing;
mod handles;
mod paths;
mod streams;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anabranch_transport::stream::StreamsConfig;
use anabranch_transport::{ClientConfig, EndpointConfig, MultipathConfig, TransportConfig};
use anabranch_wire::VarInt;

use super::{Task, check, interleave, spawn, task, time};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::socket::Socket;
use crate::{SelfSigned, config};

/// Time of a whole execution, with the closing periods of connections and delayed acknowledgments.
const LIMIT: Duration = Duration::from_secs(5);
/// Time in which events must arrive: longer than a delayed acknowledgment, and shorter than the first probe timeout.
const PROMPT: Duration = Duration::from_millis(100);

/// A client's and a server's endpoint.
struct Pair {
    client: Endpoint,
    server: Endpoint,
    config: ClientConfig,
}

/// Returns a client's address.
fn local(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

/// Returns the transport configuration of both sides. Its windows are so small that writers wait.
fn transport() -> TransportConfig {
    let streams =
        StreamsConfig::default().with_stream_window(2_000).with_stream_window_max(2_000).with_max_bidi(1);
    TransportConfig::default().with_streams(streams).with_multipath(MultipathConfig::default())
}

impl Pair {
    fn new() -> Self {
        Self::with_workers(1)
    }

    /// Creates a pair whose server has several workers. The model has no addresses that sockets share, so each worker has its own.
    fn with_workers(count: u16) -> Self {
        static IDENTITY: OnceLock<SelfSigned> = OnceLock::new();
        let identity = IDENTITY.get_or_init(|| SelfSigned::new(["localhost"]).unwrap());
        let transport = Arc::new(transport());
        let server = identity.server_config(["model"]).unwrap().with_transport(Arc::clone(&transport));
        let config = config::client(identity.roots().unwrap(), ["model"]).unwrap().with_transport(transport);
        let client = Endpoint::on(&EndpointConfig::new([1; 32]), None, || Socket::bind(local(1)));
        let sockets =
            || (0..count).map(|worker| Socket::bind(([192, 0, 2, 2], 443 + worker).into())).collect();
        let server = Endpoint::on_all(&EndpointConfig::new([2; 32]), Some(server), sockets, |_| Ok(()));
        Self { client: client.unwrap(), server: server.unwrap(), config }
    }

    /// Connects both sides.
    async fn connect(&self) -> (Connection, Connection) {
        let server = self.server.clone();
        let accepted = spawn(async move { server.accept().await.unwrap().await.unwrap() });
        let address = self.server.local_addr().unwrap();
        let ours = self.client.connect_with(&self.config, address, "localhost").unwrap().await.unwrap();
        (ours, accepted.await.unwrap())
    }

    /// Closes both sides, and waits for their connections to end.
    async fn close(self) {
        self.client.close(VarInt::ZERO, b"");
        self.client.wait_idle().await;
        self.server.close(VarInt::ZERO, b"");
        self.server.wait_idle().await;
    }
}

/// Waits for `future`, which must be ready promptly.
async fn promptly<T>(future: impl Future<Output = T>) -> T {
    let begun = time::now();
    let output = future.await;
    let passed = time::now() - begun;
    assert!(passed <= PROMPT, "an event took {passed:?}");
    output
}
