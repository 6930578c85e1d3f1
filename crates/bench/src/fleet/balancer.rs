//! An L4 load balancer in user space, which routes by QUIC-LB. It has no table of connections: a packet's server ID, or else its
//! client's address, gives the server. Like a NAT, it has a socket for each address of a client, by which answers find back.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::{ServerId, ServerIdDecoder};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::Error;

/// Address at which clients find the balancer.
const FRONT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
/// Time without any packet of a client's address after which its socket is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum length of a UDP payload, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// A server as the balancer knows it.
#[derive(Clone, Copy)]
struct Backend {
    address: SocketAddr,
    /// `false` if it gets no new clients.
    is_open: bool,
}

/// Servers by their IDs, and the sockets for clients' addresses.
#[derive(Default)]
struct State {
    servers: BTreeMap<ServerId, Backend>,
    clients: HashMap<SocketAddr, Client>,
}

/// Address of a client.
struct Client {
    socket: Arc<UdpSocket>,
    /// Server of the first packet, for the statistics of the benchmark alone.
    first: Option<ServerId>,
}

/// A running load balancer. It ends with this value.
pub(super) struct Balancer {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    _running: JoinSet<()>,
}

impl Balancer {
    /// Starts a balancer without servers. `decoder` is that of their configuration.
    pub(super) async fn start(decoder: ServerIdDecoder) -> Result<Self, Error> {
        let front = Arc::new(UdpSocket::bind(SocketAddr::from(FRONT)).await?);
        let address = front.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let mut running = JoinSet::new();
        running.spawn(forward(front, decoder, Arc::clone(&state)));
        Ok(Self { state, address, _running: running })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new clients to a server, too.
    pub(super) fn add(&self, id: ServerId, address: SocketAddr) {
        lock(&self.state).servers.insert(id, Backend { address, is_open: true });
    }

    /// Leads no new clients to a server. Its connections stay.
    pub(super) fn drain(&self, id: ServerId) {
        lock(&self.state).servers.entry(id).and_modify(|server| server.is_open = false);
    }

    /// Leads no packets to a server that is gone.
    pub(super) fn remove(&self, id: ServerId) {
        lock(&self.state).servers.remove(&id);
    }

    /// Returns the server that got the first packet from a client's address.
    pub(super) fn first_server(&self, client: SocketAddr) -> Option<ServerId> {
        lock(&self.state).clients.get(&client)?.first
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes packets of clients on to their servers.
async fn forward(front: Arc<UdpSocket>, decoder: ServerIdDecoder, state: Arc<Mutex<State>>) {
    let mut answers = JoinSet::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        // An error of the socket concerns an earlier packet: its destination is gone.
        let Ok((len, from)) = front.recv_from(&mut buffer).await else { continue };
        let packet = &buffer[..len];
        let known = lock(&state).clients.get(&from).map(|client| Arc::clone(&client.socket));
        let socket = match known {
            Some(socket) => socket,
            None => {
                let Ok(socket) = UdpSocket::bind(SocketAddr::from(FRONT)).await else { continue };
                let socket = Arc::new(socket);
                let client = Client { socket: Arc::clone(&socket), first: None };
                lock(&state).clients.insert(from, client);
                answers.spawn(answer(Arc::clone(&front), Arc::clone(&socket), from, Arc::clone(&state)));
                socket
            }
        };
        let route = {
            let mut state = lock(&state);
            let route = state.route(&decoder, packet, from);
            let first = route.map(|(id, _)| id);
            state.clients.entry(from).and_modify(|client| client.first = client.first.or(first));
            route
        };
        if let Some((_, server)) = route {
            let _ = socket.send_to(packet, server).await;
        }
        while answers.try_join_next().is_some() {}
    }
}

/// Passes packets of servers on to the client's address, until there are none for a while.
async fn answer(front: Arc<UdpSocket>, socket: Arc<UdpSocket>, client: SocketAddr, state: Arc<Mutex<State>>) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    while let Ok(received) = tokio::time::timeout(IDLE, socket.recv_from(&mut buffer)).await {
        let Ok((len, _)) = received else { continue };
        let _ = front.send_to(&buffer[..len], client).await;
    }
    lock(&state).clients.remove(&client);
}

impl State {
    /// Returns the server of a packet (draft-ietf-quic-load-balancers-21 §4.2): the one that its connection ID names; if there is no such
    /// server, the one to which the client's address leads.
    fn route(
        &self,
        decoder: &ServerIdDecoder,
        packet: &[u8],
        client: SocketAddr,
    ) -> Option<(ServerId, SocketAddr)> {
        let named = destination(packet).and_then(|cid| decoder.server_id(cid));
        let named = named.and_then(|id| Some((id, self.servers.get(&id)?.address)));
        named.or_else(|| self.fallback(client))
    }

    /// Returns a server for an address: of the open ones, that with the largest hash. If one is added or drained, all other clients keep
    /// theirs.
    fn fallback(&self, client: SocketAddr) -> Option<(ServerId, SocketAddr)> {
        let hash = |id: &ServerId| BuildHasherDefault::<DefaultHasher>::default().hash_one((id, client));
        let open = self.servers.iter().filter(|(_, server)| server.is_open);
        open.max_by_key(|(id, _)| hash(id)).map(|(id, server)| (*id, server.address))
    }
}

/// Returns the bytes of a packet that begin with its Destination Connection ID (RFC 8999 §5).
fn destination(packet: &[u8]) -> Option<&[u8]> {
    let is_long = packet.first()? & 0x80 != 0;
    if !is_long {
        return packet.get(1..);
    }
    let len = usize::from(*packet.get(5)?);
    packet.get(6..6 + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::server::{balancing, id};

    fn state(servers: u16) -> State {
        let backend = |number| Backend { address: ([127, 0, 0, 1], 1_000 + number).into(), is_open: true };
        State {
            servers: (0..servers).map(|number| (id(number), backend(number))).collect(),
            ..State::default()
        }
    }

    #[test]
    fn packets_go_where_their_connection_ids_say() {
        let (state, client) = (state(3), SocketAddr::from(([127, 0, 0, 1], 9)));
        let decoder = ServerIdDecoder::new(&balancing(0)).unwrap();
        let config = anabranch::EndpointConfig::new([1; 32]).with_load_balancing(balancing(1));
        let router = anabranch_transport::Router::new(&config, None);
        let cid = { router }.connect(anabranch::FourTuple { local: client, remote: client }).unwrap().1;
        let short = [&[0x40][..], &cid, &[7; 30]].concat();
        let long = [&[0xc0, 0, 0, 0, 1, cid.len() as u8][..], &cid, &[0; 30]].concat();
        for packet in [short, long] {
            assert_eq!(state.route(&decoder, &packet, client).unwrap().0, id(1));
        }
        // A long header with another connection ID, a truncated one, and nothing at all.
        let fallback = state.fallback(client);
        for packet in [&[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0][..], &[0xc0, 0, 0, 0, 1, 8, 1], &[]]
        {
            assert_eq!(state.route(&decoder, packet, client), fallback);
        }
    }

    #[test]
    fn another_server_takes_its_share_of_new_clients_alone() {
        let (few, mut more) = (state(3), state(4));
        let clients = || (0..1_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let server = |state: &State, client| state.fallback(client).unwrap().0;
        let moved: Vec<_> =
            clients().filter(|client| server(&few, *client) != server(&more, *client)).collect();
        assert!((180..320).contains(&moved.len()), "{}", moved.len());
        assert!(moved.iter().all(|client| server(&more, *client) == id(3)));
        // A drained server has no new clients.
        more.servers.get_mut(&id(3)).unwrap().is_open = false;
        assert!(clients().all(|client| server(&few, client) == server(&more, client)));
    }
}
