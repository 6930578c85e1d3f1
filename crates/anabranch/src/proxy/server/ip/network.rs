//! Network behind a proxy that carries IP packets: its pools of addresses, and the client that has each address.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;

use super::pool::{Holder, InvalidPool, Pool};
use crate::lock::lock;
use crate::proxy::ip::{IpRange, PacketHeader};
use crate::sync::{Mutex, RwLock};

/// Sink of packets, for instance a TUN device.
pub trait PacketSink: Send + Sync + 'static {
    /// Sends an IP packet, or drops it if that is not possible at once. Returns whether the packet was sent.
    fn send(&self, packet: &[u8]) -> bool;
}

/// Tunnel of a client that has an address of the network.
pub(super) trait Client: Send + Sync {
    /// Returns the tunnel's identifier.
    fn tunnel(&self) -> u64;
    /// Sends a packet from the network to the client.
    fn to_client(&self, packet: &[u8], header: &PacketHeader);
    /// Handles the loss of an address to another tunnel of the same user.
    fn lose(&self, address: IpAddr);
}

/// Network behind a proxy. It sends packets of clients to a [`PacketSink`], and [`IpNetwork::deliver`] sends packets to
/// clients. Clones are cheap and share everything.
#[derive(Clone)]
pub struct IpNetwork(Arc<Inner>);

struct Inner {
    pools: Mutex<Vec<Pool>>,
    /// Networks to which packets are forwarded; to all if there are none.
    routes: Vec<IpNet>,
    clients: RwLock<HashMap<IpAddr, Arc<dyn Client>>>,
    sink: Box<dyn PacketSink>,
    /// Identifier of the next tunnel.
    next: AtomicU64,
    counts: Counts,
}

/// Counters of packets that were not forwarded.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) foreign: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) too_big: AtomicU64,
    pub(super) unassigned: AtomicU64,
}

/// Numbers of packets that a network did not forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IpDrops {
    /// Packets of clients whose source is not one of their addresses.
    pub foreign: u64,
    /// Packets of clients whose destination the access list denies.
    pub denied: u64,
    /// Packets for clients that did not fit into the tunnel. Their senders get ICMP messages, of which the rate is limited.
    pub too_big: u64,
    /// Packets for addresses that no client has.
    pub unassigned: u64,
}

impl IpNetwork {
    /// Creates a network that assigns the addresses of these networks, one of each family to a client that requests none. The
    /// first address of each network is the proxy's own.
    ///
    /// # Errors
    /// Fails if a network has no addresses for clients, or bits beyond its prefix.
    pub fn new(
        networks: impl IntoIterator<Item = IpNet>,
        sink: impl PacketSink,
    ) -> Result<Self, InvalidPool> {
        let pools = networks.into_iter().map(Pool::new).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner {
            pools: Mutex::new(pools),
            routes: Vec::new(),
            clients: RwLock::default(),
            sink: Box::new(sink),
            next: AtomicU64::new(1),
            counts: Counts::default(),
        })))
    }

    /// Forwards packets to these networks only, and advertises them to clients (RFC 9484 §4.7.3). Without any, the network forwards
    /// packets to all addresses. Has an effect as long as there is no clone.
    #[must_use]
    pub fn with_routes(mut self, routes: impl IntoIterator<Item = IpNet>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.routes = IpNet::aggregate(&routes.into_iter().collect());
        }
        self
    }

    /// Returns the proxy's own address in each network, with the length of the network's prefix.
    pub fn gateways(&self) -> Vec<IpNet> {
        let gateway = |pool: &Pool| IpNet::new_assert(pool.gateway(), pool.network().prefix_len());
        lock(&self.0.pools).iter().map(gateway).collect()
    }

    /// Sends a packet that arrived on the network to the client that has its destination. Drops it if no client has.
    pub fn deliver(&self, packet: &[u8]) {
        let client = PacketHeader::parse(packet).and_then(|header| {
            let clients = self.0.clients.read().unwrap_or_else(PoisonError::into_inner);
            clients.get(&header.destination).cloned().map(|client| (client, header))
        });
        match client {
            Some((client, header)) => client.to_client(packet, &header),
            None => _ = self.0.counts.unassigned.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the numbers of packets that were not forwarded.
    pub fn drops(&self) -> IpDrops {
        let Counts { foreign, denied, too_big, unassigned } = &self.0.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        IpDrops { foreign: of(foreign), denied: of(denied), too_big: of(too_big), unassigned: of(unassigned) }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Sends a packet to the network.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        self.0.sink.send(packet)
    }

    /// Returns an identifier for a new tunnel.
    pub(super) fn tunnel(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Assigns an address of the family of `wanted` to a client, if possible `wanted` itself; `None` if none is free. A tunnel of
    /// the same user that had the address loses it.
    pub(super) fn assign(
        &self,
        wanted: IpAddr,
        client: Arc<dyn Client>,
        user: Option<&str>,
    ) -> Option<IpAddr> {
        let tunnel = client.tunnel();
        let holder = Holder { tunnel, user: user.map(str::to_owned) };
        let mut pools = lock(&self.0.pools);
        let address = match pools.iter_mut().any(|pool| pool.assign_wanted(wanted, &holder)) {
            true => wanted,
            false => pools
                .iter_mut()
                .filter(|pool| pool.network().addr().is_ipv4() == wanted.is_ipv4())
                .find_map(|pool| pool.assign_any(&holder))?,
        };
        let former = self.0.clients.write().unwrap_or_else(PoisonError::into_inner).insert(address, client);
        drop(pools);
        if let Some(former) = former.filter(|former| former.tunnel() != tunnel) {
            former.lose(address);
        }
        Some(address)
    }

    /// Returns whether the tunnel has the address.
    pub(super) fn has(&self, address: IpAddr, tunnel: u64) -> bool {
        let clients = self.0.clients.read().unwrap_or_else(PoisonError::into_inner);
        clients.get(&address).is_some_and(|client| client.tunnel() == tunnel)
    }

    /// Frees those of the addresses that the tunnel still has.
    pub(super) fn release(&self, addresses: &[IpAddr], tunnel: u64) {
        let mut pools = lock(&self.0.pools);
        let mut clients = self.0.clients.write().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            pools.iter_mut().for_each(|pool| pool.release(*address, tunnel));
            if clients.get(address).is_some_and(|client| client.tunnel() == tunnel) {
                clients.remove(address);
            }
        }
    }

    /// Returns the unspecified address of each family that has a pool, IPv4 first.
    pub(super) fn families(&self) -> Vec<IpAddr> {
        let pools = lock(&self.0.pools);
        let has = |is_ipv4| pools.iter().any(|pool| pool.network().addr().is_ipv4() == is_ipv4);
        let all = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        all.into_iter().filter(|any| has(any.is_ipv4())).collect()
    }

    /// Returns the ranges of addresses that are advertised to clients (RFC 9484 §4.7.3): the routes, or all addresses of each
    /// family that has a pool. The access list may deny some of them.
    pub(super) fn routes(&self) -> Vec<IpRange> {
        if self.0.routes.is_empty() {
            return self.families().into_iter().map(|any| IpRange::of(IpNet::new_assert(any, 0))).collect();
        }
        // The capsule has IPv4 first, and then the lower addresses.
        let mut routes = self.0.routes.clone();
        routes.sort_by_key(IpNet::network);
        routes.into_iter().map(IpRange::of).collect()
    }

    /// Returns whether packets to an address are forwarded.
    pub(super) fn forwards(&self, address: IpAddr) -> bool {
        self.0.routes.is_empty() || self.0.routes.iter().any(|network| network.contains(&address))
    }
}

impl fmt::Debug for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpNetwork").field("pools", &self.0.pools).finish_non_exhaustive()
    }
}
