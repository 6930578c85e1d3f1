//! Surroundings of a soak's clients: the server's addresses, the end of the run, and counts of what the clients did.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anabranch::{ClientConfig, Connection, Endpoint};

use super::server::Server;
use crate::Error;

/// Surroundings of all clients.
pub(super) struct Place {
    client: ClientConfig,
    /// Addresses of the server: its own, and that of the lossy link to it.
    addresses: [SocketAddr; 2],
    stop: Arc<AtomicBool>,
    connections: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) paths: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Number of streams on which the server sent other bytes back.
    pub(super) wrong: AtomicU64,
}

impl Place {
    pub(super) fn new(
        server: &Server,
        beyond: SocketAddr,
        stop: Arc<AtomicBool>,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            client: server.client.clone(),
            addresses: [server.address()?, beyond],
            stop,
            connections: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            paths: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the number of kinds of actions that never succeeded.
    pub(super) fn missing(&self) -> usize {
        let done = [&self.connections, &self.moves, &self.streams, &self.cancelled, &self.paths, &self.bytes];
        done.iter().filter(|count| count.load(Ordering::Relaxed) == 0).count()
    }

    /// Describes what the clients did.
    pub(super) fn counts(&self) -> String {
        let [connections, moves, streams, cancelled, paths, bytes] =
            [&self.connections, &self.moves, &self.streams, &self.cancelled, &self.paths, &self.bytes]
                .map(|count| count.load(Ordering::Relaxed));
        format!(
            "{connections} connections, {streams} streams ({cancelled} cancelled), {paths} further paths, {moves} moves, {:.2} GB each way",
            bytes as f64 * 1e-9
        )
    }

    /// Connects to the server, directly or over the lossy link. Returns `None` if that fails.
    pub(super) async fn connect(&self, endpoint: &Endpoint, beyond: bool) -> Option<Connection> {
        let connecting =
            endpoint.connect_with(&self.client, self.addresses[usize::from(beyond)], "localhost");
        let connection = connecting.ok()?.await.ok()?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }
}
