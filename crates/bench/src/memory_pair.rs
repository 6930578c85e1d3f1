//! A client and a server in one process, joined without sockets and without delay.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_tls as tls;
use anabranch_tls::deterministic::{Identity, VirtualClock, deterministic_provider, seed_thread};
use anabranch_transport::{
    ClientConfig, Connection, Datagram, Endpoint, EndpointConfig, FourTuple, Handle, ServerConfig, TransmitBuf,
    TransportConfig,
};
use anabranch_wire::Time;

/// Virtual time between two exchanges: one way of the path.
const STEP: Duration = Duration::from_micros(500);

/// A datagram on its way.
pub type Wire = (FourTuple, Vec<u8>);

/// Both ends.
pub struct MemoryPair {
    /// Virtual time.
    pub now: Time,
    client: Endpoint,
    server: Endpoint,
    client_handle: Handle,
    server_handle: Option<Handle>,
    buffer: TransmitBuf,
}

impl MemoryPair {
    /// Connects; both ends use `transport`.
    pub fn new(transport: TransportConfig) -> Result<Self, Box<dyn std::error::Error>> {
        seed_thread(1);
        let transport = Arc::new(transport);
        let identity = Identity::new(1, &["localhost"])?;
        let client_tls = tls::ClientConfig::builder()
            .provider(deterministic_provider())
            .time(VirtualClock::new())
            .roots(identity.roots()?)
            .alpn(["bench"])
            .build()?;
        let server_tls = tls::ServerConfig::builder()
            .provider(deterministic_provider())
            .time(VirtualClock::new())
            .certificate(vec![identity.certificate.clone()], identity.key.clone_key())
            .alpn(["bench"])
            .build()?;
        let mut client_config = ClientConfig::new(client_tls);
        client_config.transport = Arc::clone(&transport);
        let mut server_config = ServerConfig::new(server_tls);
        server_config.transport = transport;
        let now = Time::from_millis(1_000);
        let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let local: SocketAddr = (Ipv4Addr::new(127, 0, 0, 1), 50_000).into();
        let remote: SocketAddr = (Ipv4Addr::new(127, 0, 0, 2), 4433).into();
        let client_handle = client.connect(now, &client_config, FourTuple { local, remote }, "localhost")?;
        let mut pair =
            Self { now, client, server, client_handle, server_handle: None, buffer: TransmitBuf::new(64) };
        for _ in 0..20 {
            pair.exchange();
        }
        Ok(pair)
    }

    /// The client's connection.
    pub fn client(&mut self) -> Option<&mut Connection> {
        self.client.connection(self.client_handle)
    }

    /// The server's connection.
    pub fn server(&mut self) -> Option<&mut Connection> {
        self.server.connection(self.server_handle?)
    }

    /// Lets time pass and carries everything both ways.
    pub fn exchange(&mut self) {
        self.now += STEP;
        let mut to_server = self.drain_client();
        deliver(self.now, &mut self.server, &mut to_server);
        let mut to_client = self.drain_server();
        deliver(self.now, &mut self.client, &mut to_client);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        while self.client.poll_event().is_some() {}
        while let Some((handle, _)) = self.server.poll_event() {
            self.server_handle = Some(handle);
        }
    }

    /// What the client sends now.
    pub fn drain_client(&mut self) -> Vec<Wire> {
        drain(self.now, &mut self.client, &mut self.buffer)
    }

    /// What the server sends now.
    pub fn drain_server(&mut self) -> Vec<Wire> {
        drain(self.now, &mut self.server, &mut self.buffer)
    }

    /// Hands `datagrams` to the server.
    pub fn deliver_to_server(&mut self, datagrams: &mut [Wire]) {
        deliver(self.now, &mut self.server, datagrams);
    }
}

fn drain(now: Time, endpoint: &mut Endpoint, buffer: &mut TransmitBuf) -> Vec<Wire> {
    let mut out = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now, buffer) {
        let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
        for bytes in buffer.filled(&transmit).chunks(transmit.segment_size) {
            out.push((tuple, bytes.to_vec()));
        }
    }
    out
}

fn deliver(now: Time, endpoint: &mut Endpoint, datagrams: &mut [Wire]) {
    let mut batch = borrow(datagrams);
    endpoint.handle_batch(now, &mut batch);
}

/// The datagrams as the core takes them.
pub fn borrow(datagrams: &mut [Wire]) -> Vec<Datagram<'_>> {
    datagrams.iter_mut().map(|(tuple, bytes)| Datagram { tuple: *tuple, ecn: None, payload: bytes }).collect()
}
