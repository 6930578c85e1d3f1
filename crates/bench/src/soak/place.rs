//! Surroundings of a soak's clients: the server's addresses, the end of the run, and counts of what the clients did.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anabranch::{ClientConfig, Connection, Endpoint};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::server::Server;
use crate::Error;

/// Surroundings of all clients.
pub(super) struct Place {
    client: ClientConfig,
    /// Addresses of the server: its own, and that of the lossy link to it.
    addresses: [SocketAddr; 2],
    stop: Arc<AtomicBool>,
    /// Lock that each client shares for one round of actions, and that a sample holds alone.
    rounds: RwLock<()>,
    /// Number of connections: direct ones, and those over the lossy link.
    connections: [AtomicU64; 2],
    /// Number of attempts to connect that failed.
    failed: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) cancelled: AtomicU64,
    /// Number of paths that visitors and residents opened after the first one.
    pub(super) paths: [AtomicU64; 2],
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
            rounds: RwLock::new(()),
            connections: Default::default(),
            failed: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            paths: Default::default(),
            bytes: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins a client's round of actions, after a sample that waits or is being taken.
    pub(super) async fn round(&self) -> RwLockReadGuard<'_, ()> {
        self.rounds.read().await
    }

    /// Waits until all rounds have ended. No other begins before the guard is dropped.
    pub(super) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.rounds.write().await
    }

    /// Returns the number of kinds of actions that never succeeded.
    pub(super) fn missing(&self) -> usize {
        let ([direct, beyond], [visitors, residents]) = (&self.connections, &self.paths);
        let done =
            [direct, beyond, &self.moves, &self.streams, &self.cancelled, visitors, residents, &self.bytes];
        done.iter().filter(|count| count.load(Ordering::Relaxed) == 0).count()
    }

    /// Returns the number of attempts to connect that failed, and their share of all.
    pub(super) fn failed(&self) -> (u64, f64) {
        let failed = self.failed.load(Ordering::Relaxed);
        let made: u64 = self.connections.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (failed, failed as f64 / (failed + made).max(1) as f64)
    }

    /// Describes what the clients did.
    pub(super) fn counts(&self) -> String {
        let ([direct, beyond], [visitors, residents]) = (&self.connections, &self.paths);
        let counts =
            [direct, beyond, &self.moves, &self.streams, &self.cancelled, visitors, residents, &self.bytes];
        let [direct, beyond, moves, streams, cancelled, visitors, residents, bytes] =
            counts.map(|count| count.load(Ordering::Relaxed));
        format!(
            "{direct} connections and {beyond} over the lossy link, {streams} streams ({cancelled} cancelled), {visitors} further paths of visitors and {residents} of residents, {moves} moves, {:.2} GB each way",
            bytes as f64 * 1e-9
        )
    }

    /// Connects to the server, directly or over the lossy link. Returns `None` if that fails.
    pub(super) async fn connect(&self, endpoint: &Endpoint, beyond: bool) -> Option<Connection> {
        let address = self.addresses[usize::from(beyond)];
        let connection = match endpoint.connect_with(&self.client, address, "localhost") {
            Ok(connecting) => connecting.await.ok(),
            Err(_) => None,
        };
        let count = if connection.is_some() { &self.connections[usize::from(beyond)] } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        connection
    }
}
