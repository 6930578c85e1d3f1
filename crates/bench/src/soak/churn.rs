//! Clients of a soak: visitors whose connections last for a moment, and residents that move.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anabranch::{ClientConfig, Connection, Endpoint};
use anabranch_lab::random::{Rng, Seed};
use tokio::task::JoinHandle;

use super::server::Server;
use super::visit::{self, Visit};
use crate::Error;

/// Number of clients of each kind.
const VISITORS: usize = 6;
const RESIDENTS: usize = 3;
/// Number of connections for which a visitor keeps its endpoint.
const VISITS: u64 = 50;
/// Maximum number of streams of a visit, and of a resident between two moves.
const STREAMS: u64 = 20;
/// Longest pause between two actions of a resident.
const MAX_PAUSE_MS: u64 = 50;

/// Surroundings of all clients.
pub(super) struct Place {
    client: ClientConfig,
    /// Addresses of the server: its own, and that of the lossy link to it.
    addresses: [SocketAddr; 2],
    stop: Arc<AtomicBool>,
    connections: AtomicU64,
    moves: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) paths: AtomicU64,
    pub(super) bytes: AtomicU64,
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
        }))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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

    async fn connect(&self, endpoint: &Endpoint, beyond: bool) -> Option<Connection> {
        let connecting =
            endpoint.connect_with(&self.client, self.addresses[usize::from(beyond)], "localhost");
        let connection = connecting.ok()?.await.ok()?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }
}

/// Starts all clients.
pub(super) fn start(place: &Arc<Place>, seed: u64) -> Vec<JoinHandle<()>> {
    let rng = |kind: &str, number: usize| Seed(seed).rng(&format!("{kind} {number}"));
    let visitors =
        (0..VISITORS).map(|number| tokio::spawn(visit_often(Arc::clone(place), rng("visitor", number))));
    let residents =
        (0..RESIDENTS).map(|number| tokio::spawn(reside(Arc::clone(place), rng("resident", number))));
    visitors.chain(residents).collect()
}

/// Connects again and again: directly or over the lossy link, with one path or two, and leaves in several ways.
async fn visit_often(place: Arc<Place>, mut rng: Rng) {
    while !place.has_ended() {
        let Ok(endpoint) = Endpoint::client(([127, 0, 0, 1], 0).into()) else { return };
        for _ in 0..VISITS {
            if place.has_ended() {
                break;
            }
            let Some(connection) = place.connect(&endpoint, rng.chance(0.5)).await else { continue };
            let visit = Visit::new(&place, &connection);
            if rng.chance(0.3) {
                visit.open_path(&mut rng).await;
            }
            visit.streams(rng.between(1, STREAMS), &mut rng).await;
            visit::leave(connection, &mut rng).await;
        }
        endpoint.wait_close_sent().await;
    }
}

/// Keeps a connection, over which streams come and go, while the client moves from socket to socket and opens and abandons paths.
async fn reside(place: Arc<Place>, mut rng: Rng) {
    while !place.has_ended() {
        let Ok(endpoint) = Endpoint::client(([127, 0, 0, 1], 0).into()) else { return };
        let Some(connection) = place.connect(&endpoint, rng.chance(0.5)).await else { continue };
        let visit = Visit::new(&place, &connection);
        while !place.has_ended() && connection.close_reason().is_none() {
            visit.streams(rng.between(1, STREAMS), &mut rng).await;
            match rng.below(4) {
                0 => connection.update_keys(),
                1 => visit.open_path(&mut rng).await,
                2 => move_to_another_socket(&place, &endpoint).await,
                _ => tokio::time::sleep(Duration::from_millis(rng.between(0, MAX_PAUSE_MS))).await,
            }
        }
        visit::leave(connection, &mut rng).await;
        endpoint.wait_close_sent().await;
    }
}

/// Replaces the client's socket, which the server sees as a NAT rebinding or a migration.
async fn move_to_another_socket(place: &Place, endpoint: &Endpoint) {
    let socket = UdpSocket::bind("127.0.0.1:0");
    if socket.and_then(|socket| endpoint.rebind(socket)).is_ok() {
        place.moves.fetch_add(1, Ordering::Relaxed);
    }
    // The server validates the address meanwhile.
    tokio::time::sleep(Duration::from_millis(20)).await;
}
