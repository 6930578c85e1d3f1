//! A client and a server connected by a link with constant delay.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_recovery::Algorithm;
pub(super) use anabranch_testkit::pattern;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_wire::{Dir, Direction, Side, StreamId, Time, Version};
use bytes::Bytes;

use crate::stream::{ReadError, WriteError};
pub(super) use crate::testing::Flying;
use crate::testing::{deliver, drain};
use crate::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Event, FourTuple, Handle,
    ServerConfig, TransportConfig,
};

pub(super) const ALPN: &str = "test";

pub(super) fn client_addr() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 1), 50_000).into()
}

pub(super) fn server_addr() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 2), 4433).into()
}

/// Network: takes the sender of a datagram and the datagram, and returns the datagrams that arrive.
pub(super) type Network = Box<dyn FnMut(Side, Flying) -> Vec<Flying>>;

pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) delay: Duration,
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) client_handle: Handle,
    pub(super) server_handle: Option<Handle>,
    pub(super) to_server: VecDeque<Flying>,
    pub(super) to_client: VecDeque<Flying>,
    pub(super) client_events: Vec<Event>,
    pub(super) server_events: Vec<Event>,
    /// Source address of the client's datagrams as the server sees it.
    pub(super) client_seen_as: SocketAddr,
    pub(super) client_config: ClientConfig,
    server_config: ServerConfig,
    /// Addresses from which the client has sent, and their NAT mappings.
    pub(super) client_locals: Vec<SocketAddr>,
    /// Network between the endpoints: it may change, delay, duplicate or drop datagrams. `None` delivers all.
    pub(super) network: Option<Network>,
    pub(super) bytes_to_client: u64,
    pub(super) bytes_to_server: u64,
    /// Bytes sent to each destination, whether it exists or not.
    pub(super) sent_to: BTreeMap<SocketAddr, u64>,
    /// `true` if datagrams that arrive at the same time are passed on one by one, instead of in a batch.
    pub(super) one_by_one: bool,
}

thread_local! {
    /// Version that all pairs of the running test use; `None` for the default.
    static WIRE: Cell<Option<Version>> = Cell::new(env::var(super::over::WIRE).is_ok().then_some(Version::REVERSO));
}

/// Runs `test` with `version` for all pairs.
pub(super) fn over(version: Version, test: fn()) {
    WIRE.set(Some(version));
    test();
}

/// Returns the version that the pairs of the running test use.
pub(super) fn version() -> Version {
    WIRE.get().unwrap_or(Version::V1)
}

/// Returns the direction in which frames of the running test's version are read.
pub(super) fn direction() -> Direction {
    version().format().unwrap().direction
}

pub(super) fn configs() -> (ClientConfig, ServerConfig) {
    let trust = Trust::new("localhost");
    let client = trust.client(ALPN).early_data(true).build().unwrap();
    let server = trust.server(ALPN).early_data(true).build().unwrap();
    let (mut client, mut server) = (ClientConfig::new(client), ServerConfig::new(server));
    if let Some(version) = WIRE.get() {
        client.initial_version = version;
        for transport in [&mut client.transport, &mut server.transport] {
            Arc::make_mut(transport).versions = vec![version];
        }
    }
    (client, server)
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// Creates a pair and changes the transport configuration of both endpoints.
    pub(super) fn with_transport(change: impl Fn(&mut TransportConfig)) -> Self {
        Self::with(|client, server| {
            change(Arc::make_mut(&mut client.transport));
            change(Arc::make_mut(&mut server.transport));
        })
    }

    pub(super) fn with(change: impl FnOnce(&mut ClientConfig, &mut ServerConfig)) -> Self {
        seed_thread(7);
        let (mut client_config, mut server_config) = configs();
        // Values computed by hand in tests assume CUBIC.
        for transport in [&mut client_config.transport, &mut server_config.transport] {
            let transport = Arc::make_mut(transport);
            transport.recovery = transport.recovery.clone().with_congestion(Algorithm::Cubic);
        }
        change(&mut client_config, &mut server_config);
        let now = Time::from_millis(1_000);
        let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let server = server_endpoint(&server_config);
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        let client_handle = client.connect(now, &client_config, tuple, "localhost").unwrap();
        Self {
            now,
            delay: Duration::from_millis(10),
            client,
            server,
            client_handle,
            server_handle: None,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            client_seen_as: client_addr(),
            client_config,
            server_config,
            client_locals: vec![client_addr()],
            network: None,
            bytes_to_client: 0,
            bytes_to_server: 0,
            sent_to: BTreeMap::new(),
            one_by_one: false,
        }
    }

    /// Restarts the server with a changed configuration. It keeps only its secrets.
    pub(super) fn restart_server(&mut self, change: impl FnOnce(&mut ServerConfig)) {
        change(&mut self.server_config);
        self.server = server_endpoint(&self.server_config);
        self.server_handle = None;
        self.server_events.clear();
        self.to_server.clear();
        self.to_client.clear();
    }

    /// Starts another connection between the same endpoints.
    pub(super) fn reconnect(&mut self) {
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        self.client_events.clear();
        self.server_events.clear();
        self.server_handle = None;
        self.client_handle = self.client.connect(self.now, &self.client_config, tuple, "localhost").unwrap();
    }

    pub(super) fn server_config(&self) -> &ServerConfig {
        &self.server_config
    }

    pub(super) fn client(&mut self) -> &mut Connection {
        self.client.connection(self.client_handle).expect("the client's connection")
    }

    pub(super) fn server(&mut self) -> &mut Connection {
        self.server
            .connection(self.server_handle.expect("an accepted connection"))
            .expect("the server's connection")
    }

    pub(super) fn end(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Client => self.client(),
            Side::Server => self.server(),
        }
    }

    /// Moves the datagrams of both endpoints to the network.
    pub(super) fn drain(&mut self) {
        let at = self.now + self.delay;
        for sent in drain(&mut self.client, self.now) {
            let FourTuple { local: remote, remote: local } = sent.tuple;
            if !self.client_locals.contains(&local) {
                self.client_locals.push(local);
            }
            self.bytes_to_server += sent.bytes.len() as u64;
            *self.sent_to.entry(remote).or_default() += sent.bytes.len() as u64;
            let seen_as = if local == client_addr() { self.client_seen_as } else { local };
            let flying = Flying { at, tuple: FourTuple { local: remote, remote: seen_as }, ..sent };
            carry(&mut self.network, &mut self.to_server, Side::Client, flying);
        }
        while let Some((_, event)) = self.client.poll_event() {
            self.client_events.push(event);
        }
        for sent in drain(&mut self.server, self.now) {
            let FourTuple { local: remote, remote: local } = sent.tuple;
            let reached = if remote == self.client_seen_as { client_addr() } else { remote };
            let nowhere = !self.client_locals.contains(&reached)
                || remote == client_addr() && self.client_seen_as != client_addr();
            self.bytes_to_client += sent.bytes.len() as u64;
            *self.sent_to.entry(remote).or_default() += sent.bytes.len() as u64;
            if !nowhere {
                let flying = Flying { at, tuple: FourTuple { local: reached, remote: local }, ..sent };
                carry(&mut self.network, &mut self.to_client, Side::Server, flying);
            }
        }
        while let Some((handle, event)) = self.server.poll_event() {
            self.server_handle = Some(handle);
            self.server_events.push(event);
        }
    }

    /// Advances to the next event. Returns `false` if there is none.
    pub(super) fn step(&mut self) -> bool {
        self.drain();
        let arrivals = [&self.to_server, &self.to_client].map(|queue| queue.front().map(|flying| flying.at));
        let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
        let Some(next) = arrivals.into_iter().chain(timers).flatten().min() else { return false };
        self.now = self.now.max(next);
        let most = if self.one_by_one { 1 } else { usize::MAX };
        deliver(&mut self.server, self.now, due(self.now, &mut self.to_server), most);
        deliver(&mut self.client, self.now, due(self.now, &mut self.to_client), most);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.drain();
        true
    }

    /// Steps until `done` returns `true`. Panics if that takes longer than `limit` in virtual time.
    pub(super) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = self.now + limit;
        while !done(self) {
            assert!(self.now < deadline, "nothing came of it in {limit:?}");
            assert!(self.step(), "nothing left to happen");
        }
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.drain();
            let arrivals =
                [&self.to_server, &self.to_client].map(|queue| queue.front().map(|flying| flying.at));
            let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
            let next = arrivals.into_iter().chain(timers).flatten().min();
            if next.is_none_or(|next| next > end) {
                self.now = end;
                return;
            }
            self.step();
        }
    }

    pub(super) fn connect(&mut self) {
        self.run_until(Duration::from_secs(10), |pair| {
            let confirmed = |events: &[Event]| events.contains(&Event::Confirmed);
            confirmed(&pair.client_events) && confirmed(&pair.server_events)
        });
    }

    /// Runs until neither endpoint has anything left to send.
    pub(super) fn run_until_quiet(&mut self) {
        self.run_for(Duration::from_millis(500));
    }

    pub(super) fn closed(&self, side: Side) -> Option<&ConnectionError> {
        let events = match side {
            Side::Client => &self.client_events,
            Side::Server => &self.server_events,
        };
        events.iter().find_map(|event| match event {
            Event::Closed(error) => Some(error),
            _ => None,
        })
    }

    /// Sends `data` on a new stream from `from`, and returns the data that arrives at the other endpoint.
    pub(super) fn transfer(&mut self, from: Side, data: &[u8]) -> Vec<u8> {
        let id = self.end(from).streams().open(Dir::Uni).expect("credit for a stream");
        let mut rest = Bytes::copy_from_slice(data);
        let mut received = Vec::new();
        let mut finished = false;
        self.run_until(Duration::from_secs(120), |pair| {
            while !rest.is_empty() {
                match pair.end(from).streams().write_bytes(id, &mut rest) {
                    Ok(_) => {}
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if rest.is_empty() && !finished {
                pair.end(from).streams().finish(id).unwrap();
                finished = true;
            }
            if from == Side::Client && pair.server_handle.is_none() {
                return false;
            }
            pair.read(from.peer(), id, &mut received)
        });
        received
    }

    /// Reads all available data of a stream. Returns `true` at its end.
    pub(super) fn read(&mut self, side: Side, id: StreamId, into: &mut Vec<u8>) -> bool {
        let streams = self.end(side).streams();
        loop {
            match streams.peek(id) {
                Ok(bytes) => {
                    into.extend_from_slice(bytes);
                    let len = bytes.len();
                    streams.consume(id, len).unwrap();
                }
                Err(ReadError::Blocked | ReadError::Closed) => return false,
                Err(ReadError::Finished) => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(super) fn server_endpoint(config: &ServerConfig) -> Endpoint {
    let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(config.clone())));
    server.set_auto_accept(true);
    server
}

/// Passes a datagram through the network and queues the result by arrival time.
fn carry(network: &mut Option<Network>, queue: &mut VecDeque<Flying>, from: Side, flying: Flying) {
    let arriving = match network {
        Some(network) => network(from, flying),
        None => vec![flying],
    };
    for flying in arriving {
        let at = queue.partition_point(|other| other.at <= flying.at);
        queue.insert(at, flying);
    }
}

/// Removes and returns the datagrams in `queue` that have arrived.
fn due(now: Time, queue: &mut VecDeque<Flying>) -> Vec<Flying> {
    let arrived = queue.iter().take_while(|flying| flying.at <= now).count();
    queue.drain(..arrived).collect()
}
