//! Clients of a soak: visitors whose connections last for a moment, and residents that move.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch::Endpoint;
use anabranch_lab::random::{Rng, Seed};
use tokio::task::JoinHandle;

use super::place::Place;
use super::visit::{self, Visit};

/// Number of clients of each kind.
const VISITORS: usize = 6;
const RESIDENTS: usize = 3;
/// Number of connections for which a visitor keeps its endpoint.
const VISITS: u64 = 50;
/// Maximum number of streams of a visit, and of a resident between two moves.
const STREAMS: u64 = 20;
/// Longest pause between two actions of a resident.
const MAX_PAUSE_MS: u64 = 50;

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
            let _round = place.round().await;
            let Some(connection) = place.connect(&endpoint, rng.chance(0.5)).await else { continue };
            let visit = Visit::new(&place, &connection);
            if rng.chance(0.3) {
                visit.open_path(&place.paths[0], &mut rng).await;
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
            let _round = place.round().await;
            visit.streams(rng.between(1, STREAMS), &mut rng).await;
            match rng.below(4) {
                0 => connection.update_keys(),
                1 => visit.open_path(&place.paths[1], &mut rng).await,
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
