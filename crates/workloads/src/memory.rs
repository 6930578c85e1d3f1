//! Client and server endpoint in one process, connected without sockets and without loss.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_seeded::{Identity, VirtualClock, seed_thread};
use anabranch_tls as tls;
use anabranch_transport::{
    ClientConfig, Connection, Datagram, Endpoint, EndpointConfig, Event, FourTuple, Handle, ServerConfig,
    Transmit, TransmitBuf, TransportConfig,
};
use anabranch_wire::Time;

use crate::Error;
use crate::counting::Account;

/// Virtual time between two exchanges: the one-way delay of the path.
pub const STEP: Duration = Duration::from_micros(500);

/// Time after which idle connections rest, and more.
const REST: Duration = Duration::from_secs(10);
/// Number of exchanges within which a handshake must complete and the packets that follow it are sent.
const HANDSHAKE_EXCHANGES: usize = 20;

/// Maximum number of datagrams in a batch to send.
pub(crate) const TRANSMIT_BATCH: usize = 64;

/// Datagram in transit.
#[derive(Debug)]
pub struct Wire {
    /// Addresses, as its receiver sees them.
    pub tuple: FourTuple,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// TLS for both endpoints, as programs have it, but with virtual time.
#[derive(Debug)]
pub struct MemoryTls {
    /// Configuration of clients.
    pub client: tls::ClientConfig,
    /// Configuration of servers.
    pub server: tls::ServerConfig,
}

impl MemoryTls {
    /// Creates both, with a new certificate. The client resumes sessions with up to `remembered` servers.
    ///
    /// # Errors
    ///
    /// The certificate cannot be made.
    pub fn new(remembered: usize) -> Result<Self, Error> {
        seed_thread(1);
        let identity = Identity::new(1, &["localhost"])?;
        let client = tls::ClientConfig::builder()
            .time(VirtualClock::new())
            .remembered_servers(remembered)
            .roots(identity.roots()?)
            .alpn(["bench"])
            .build()?;
        let server = tls::ServerConfig::builder()
            .time(VirtualClock::new())
            .certificate(vec![identity.certificate.clone()], identity.key.clone_key())
            .alpn(["bench"])
            .build()?;
        Ok(Self { client, server })
    }
}

/// Client and server, and the connection between them.
pub struct Memory {
    /// Virtual time.
    pub now: Time,
    /// Memory that the server's side has allocated.
    pub server_heap: Account,
    config: ClientConfig,
    client: Endpoint,
    server: Endpoint,
    buffer: TransmitBuf,
    connected: Option<Handle>,
}

impl Memory {
    /// Creates the endpoints without a connection; both use `transport`. Each handshake is a full one.
    ///
    /// # Errors
    ///
    /// The certificate cannot be made.
    pub fn new(transport: TransportConfig) -> Result<Self, Error> {
        Self::with_sessions(transport, 0)
    }

    /// Creates the endpoints like [`Self::new`]. The client resumes sessions with up to `remembered` servers.
    ///
    /// # Errors
    ///
    /// The certificate cannot be made.
    pub fn with_sessions(transport: TransportConfig, remembered: usize) -> Result<Self, Error> {
        let tls = MemoryTls::new(remembered)?;
        let transport = Arc::new(transport);
        let config = ClientConfig::new(tls.client).with_transport(Arc::clone(&transport));
        let version = transport.versions().first().copied().unwrap_or(config.initial_version());
        let config = config.with_initial_version(version);
        let server_config = ServerConfig::new(tls.server).with_transport(transport);
        let client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        Ok(Self {
            now: Time::from_millis(1_000),
            server_heap: Account::default(),
            config,
            client,
            server,
            buffer: TransmitBuf::new(TRANSMIT_BATCH),
            connected: None,
        })
    }

    /// Opens another connection and waits until it is idle. Returns its handles at the client and at the
    /// server.
    ///
    /// # Errors
    ///
    /// The handshake did not succeed.
    pub fn connect(&mut self) -> Result<(Handle, Handle), Error> {
        let local: SocketAddr = (Ipv4Addr::new(127, 0, 0, 1), 50_000).into();
        let remote: SocketAddr = (Ipv4Addr::new(127, 0, 0, 2), 4433).into();
        let client = self.client.connect(self.now, &self.config, FourTuple { local, remote }, "localhost")?;
        for _ in 0..HANDSHAKE_EXCHANGES {
            self.exchange();
        }
        let server = self.connected.take().ok_or("a handshake in memory did not succeed")?;
        Ok((client, server))
    }

    /// Lets all connections rest, as a driver does once they have had no traffic for a while. `server` are handles of the server's.
    pub fn rest(&mut self, server: &[Handle]) {
        self.now += REST;
        for handle in server {
            let (now, endpoint) = (self.now, &mut self.server);
            self.server_heap.charge(|| endpoint.connection(*handle).map(|connection| connection.rest(now)));
        }
    }

    /// Returns a connection of the client's endpoint.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn client(&mut self, handle: Handle) -> Result<&mut Connection, Error> {
        self.client.connection(handle).ok_or_else(|| "the client's connection is gone".into())
    }

    /// Returns a connection of the server's endpoint.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn server(&mut self, handle: Handle) -> Result<&mut Connection, Error> {
        self.server.connection(handle).ok_or_else(|| "the server's connection is gone".into())
    }

    /// Advances time by one step and delivers all datagrams in both directions.
    pub fn exchange(&mut self) {
        self.now += STEP;
        let to_server = self.drain_client();
        self.deliver_to_server(to_server);
        let to_client = self.drain_server();
        self.deliver_to_client(to_client);
    }

    /// Delivers `datagrams` to the client, and handles its timers and events.
    pub(crate) fn deliver_to_client(&mut self, mut datagrams: Vec<Wire>) {
        self.client.handle_batch(self.now, &mut borrow(&mut datagrams));
        self.client.handle_timeout(self.now);
        while self.client.poll_event().is_some() {}
    }

    /// Returns the server's endpoint.
    pub(crate) fn server_endpoint(&mut self) -> &mut Endpoint {
        &mut self.server
    }

    /// Returns the datagrams that the client sends now.
    pub fn drain_client(&mut self) -> Vec<Wire> {
        drain(self.now, &mut self.client, &mut self.buffer)
    }

    /// Returns the datagrams that the server sends now.
    pub fn drain_server(&mut self) -> Vec<Wire> {
        let mut sent = Vec::new();
        loop {
            let (now, server, buffer) = (self.now, &mut self.server, &mut self.buffer);
            let Some(transmit) = self.server_heap.charge(|| send_at_server(server, now, buffer)) else {
                break;
            };
            take_apart(&transmit, buffer, &mut sent);
        }
        sent
    }

    /// Delivers `datagrams` to the server and handles its timers.
    pub fn deliver_to_server(&mut self, mut datagrams: Vec<Wire>) {
        let mut batch = borrow(&mut datagrams);
        let (now, server) = (self.now, &mut self.server);
        if let Some(handle) = self.server_heap.charge(|| receive_at_server(server, now, &mut batch)) {
            self.connected = Some(handle);
        }
    }
}

/// Lets the server write its next batch.
#[inline(never)]
fn send_at_server(server: &mut Endpoint, now: Time, buffer: &mut TransmitBuf) -> Option<Transmit> {
    server.poll_transmit(now, buffer)
}

/// Delivers datagrams to the server, and handles its timers and events. Returns the last connection whose handshake has succeeded.
#[inline(never)]
fn receive_at_server(server: &mut Endpoint, now: Time, batch: &mut [Datagram<'_>]) -> Option<Handle> {
    server.handle_batch(now, batch);
    server.handle_timeout(now);
    let mut connected = None;
    while let Some((handle, event)) = server.poll_event() {
        if matches!(event, Event::Connected { .. }) {
            connected = Some(handle);
        }
    }
    connected
}

fn drain(now: Time, endpoint: &mut Endpoint, buffer: &mut TransmitBuf) -> Vec<Wire> {
    let mut sent = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now, buffer) {
        take_apart(&transmit, buffer, &mut sent);
    }
    sent
}

/// Splits a batch into datagrams, as they arrive at the other endpoint.
pub(crate) fn take_apart(transmit: &Transmit, buffer: &TransmitBuf, out: &mut Vec<Wire>) {
    let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
    let datagrams = buffer.filled(transmit).chunks(transmit.segment_size);
    out.extend(datagrams.map(|bytes| Wire { tuple, bytes: bytes.to_vec() }));
}

/// Borrows the datagrams in the form that the transport accepts.
pub fn borrow(datagrams: &mut [Wire]) -> Vec<Datagram<'_>> {
    let wires = datagrams.iter_mut();
    wires.map(|Wire { tuple, bytes }| Datagram { tuple: *tuple, ecn: None, payload: bytes }).collect()
}
