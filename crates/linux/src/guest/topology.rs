//! The hosts and links of an [`Order`], the description of one experiment: a server, a client, and a router
//! for each path between them.
//!
//! ```text
//! server ── veth ── router ── veth ── client
//!                     │ its devices hold the queueing disciplines of both directions
//! ```
//!
//! The bottleneck is on the router. If it were on the sending host, TCP would see the packets that wait
//! there.

use std::io;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::generic::Family;
use super::namespace::{End, Namespace, connect, set};
use super::qdisc;
use crate::order::{Order, Properties, Way, Work};
use crate::stack::{Buffers, Stack};
use crate::train::SplitMix;

/// Address of the server, to which every path leads.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Port of the server.
pub(super) const PORT: u16 = 443;
/// Port of the client's first connection.
pub(super) const CLIENT_PORT: u16 = 40_000;

/// Smallest values of the last byte of the client's addresses: for paths that share another path's link, and
/// for the other connections of a competition.
const SHARED_FROM: u8 = 10;
const OTHERS_FROM: u8 = 100;

/// Devices on a router: towards the server, and towards the client.
const TO_SERVER: u32 = 10;
const TO_CLIENT: u32 = 11;

/// All namespaces of an order.
pub(super) struct Topology {
    pub(super) server: Namespace,
    pub(super) client: Namespace,
    routers: Vec<Namespace>,
}

/// Returns the address of the client on a path. A path that shares another path's link has its own address on
/// that link.
pub(super) fn client_address(order: &Order, path: usize) -> Ipv4Addr {
    match order.link_of(path) {
        link if link == path => address(path, 2, 1),
        link => address(link, 2, SHARED_FROM + path as u8),
    }
}

/// Returns the address of one of the other connections of a competition, on the first path's link.
pub(super) fn other_address(other: u32) -> Ipv4Addr {
    address(0, 2, OTHERS_FROM + other as u8)
}

/// Returns the path of a client's address.
pub(super) fn path_of(order: &Order, client: Ipv4Addr) -> Option<usize> {
    (0..order.paths.len()).find(|path| client_address(order, *path) == client)
}

fn address(path: usize, side: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, path as u8 + 1, side, host)
}

/// Returns the index of the device of a host that leads to a path.
fn device(path: usize) -> u32 {
    path as u32 + 2
}

impl Topology {
    /// Creates the hosts, the routers and the links of `order`.
    pub(super) fn create(order: &Order) -> io::Result<Self> {
        let mut server = Namespace::create()?;
        server.own(SERVER)?;
        settings(order.stack)?;
        let mut client = Namespace::create()?;
        settings(order.stack)?;
        let mut routers = Vec::new();
        for link in 0..order.links() {
            let mut router = Namespace::create()?;
            set("ipv4/ip_forward", "1")?;
            join(link, [&mut server, &mut client], &mut router)?;
            for (index, way, seed) in ways(order, link) {
                qdisc::create(&mut router.route, index as i32, way, seed)?;
            }
            routers.push(router);
        }
        for address in further_addresses(order) {
            client.add_address(device(0), address, 32)?;
            routers[0].add_route((address, 32), client_address(order, 0), TO_CLIENT, 0)?;
        }
        if order.stack.is_multipath() {
            client.enter()?;
            for path in 1..order.paths.len() {
                Family::add_subflow(client_address(order, path), device(order.link_of(path)))?;
            }
        }
        Ok(Self { server, client, routers })
    }

    /// Changes the links as the order states, until `end` receives a message or its sender is dropped.
    pub(super) fn vary(&mut self, order: &Order, begin: Instant, end: &Receiver<()>) -> io::Result<()> {
        let mut changes = Vec::new();
        for path in 0..order.links() {
            for (place, (index, way, seed)) in ways(order, path).into_iter().enumerate() {
                let before = core::iter::once(&way.first).chain(way.changes.iter().map(|(_, later)| later));
                for (nth, (before, (at, now))) in before.zip(&way.changes).enumerate() {
                    let seed = seed ^ (nth as u64 + 1) << 32;
                    changes.push((*at, path, place, (index, way, seed), (before, now)));
                }
            }
        }
        changes.sort_by_key(|(at, path, place, ..)| (*at, *path, *place));
        for (at, path, _, (index, way, seed), step) in changes {
            let wait =
                (begin + core::time::Duration::from_nanos(at)).saturating_duration_since(Instant::now());
            match end.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let step: (&Properties, &Properties) = step;
            qdisc::change(&mut self.routers[path].route, index as i32, way, step, seed)?;
        }
        Ok(())
    }

    /// Returns the number of packets that did not fit into the queue of each path, towards the client or the
    /// server.
    pub(super) fn overflows(&mut self, to_client: bool) -> io::Result<Vec<u64>> {
        let index = if to_client { TO_CLIENT } else { TO_SERVER };
        self.routers.iter_mut().map(|router| qdisc::overflows(&mut router.route, index as i32)).collect()
    }
}

/// Returns the addresses that the client has on the first link in addition to the first path's address.
fn further_addresses(order: &Order) -> impl Iterator<Item = Ipv4Addr> {
    let others = match order.work {
        Work::Competition { others, .. } => others,
        _ => 0,
    };
    let shared = (1..order.paths.len()).filter(|path| order.link_of(*path) == 0);
    shared.map(|path| client_address(order, path)).chain((0..others).map(other_address))
}

/// Returns both directions of a path: the router's device, the direction, and the seed of its losses.
fn ways(order: &Order, path: usize) -> [(u32, &Way, u64); 2] {
    let seed = |direction: u64| {
        let place = SplitMix(2 * path as u64 + direction + 1).bits();
        SplitMix(order.seed ^ place).bits()
    };
    let link = &order.paths[path];
    [(TO_SERVER, &link.up, seed(0)), (TO_CLIENT, &link.down, seed(1))]
}

/// Connects both hosts by a path's router.
fn join(path: usize, [server, client]: [&mut Namespace; 2], router: &mut Namespace) -> io::Result<()> {
    let [at_server, near_server] = [address(path, 1, 1), address(path, 1, 2)];
    let [at_client, near_client] = [address(path, 2, 1), address(path, 2, 2)];
    let name = format!("path{path}");
    let (host, index) = (name.as_str(), device(path));
    connect(
        End { namespace: server, name: host, index, address: at_server },
        End { namespace: router, name: "server", index: TO_SERVER, address: near_server },
    )?;
    connect(
        End { namespace: client, name: host, index, address: at_client },
        End { namespace: router, name: "client", index: TO_CLIENT, address: near_client },
    )?;
    server.add_route((address(path, 2, 0), 24), near_server, index, 0)?;
    router.add_route((SERVER, 32), at_server, TO_SERVER, 0)?;
    // The first path's route is preferred. The other routes are used by sockets that are bound to their
    // devices.
    client.add_route((SERVER, 32), near_client, index, path as u32 + 1)
}

/// Receive buffer sizes with which a socket advertises a window of at most about 256 KiB. The kernel counts
/// the memory of whole packets, of which the payload is a part.
const LIMITED_RECEIVE: &str = "4096 131072 415000";

/// Writes the settings of TCP for this thread's namespace.
fn settings(stack: Stack) -> io::Result<()> {
    let [receive, send] = match stack.buffers {
        Buffers::Paper => ["4096 131072 16777216", "4096 16384 16777216"],
        Buffers::Default => ["4096 131072 6291456", "4096 16384 4194304"],
        Buffers::Window256K => [LIMITED_RECEIVE, "4096 16384 16777216"],
    };
    set("ipv4/tcp_rmem", receive)?;
    set("ipv4/tcp_wmem", send)?;
    set("ipv4/tcp_no_metrics_save", "1")?;
    set("ipv4/tcp_congestion_control", stack.control().name())
}
