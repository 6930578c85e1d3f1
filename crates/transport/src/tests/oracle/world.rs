//! A victim with two connections: one to an attacker, one to a neighbour whose requests are timed. The victim has one processor that
//! takes a constant time for each datagram, so that it responds later the more datagrams it receives and sends.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_meter::Meter;
use anabranch_testkit::seeded::seed_thread;
use anabranch_wire::{Dir, Side, StreamId, Time};

use super::super::pair::{Flying, configs, server_endpoint};
use crate::stream::{ReadError, Streams};
use crate::testing::{deliver, drain};
use crate::{
    Connection, ConnectionError, Datagram, Endpoint, EndpointConfig, Event, FourTuple, Handle, TransmitBuf,
    TransportConfig,
};

/// One-way delay between the victim and each of the others.
const DELAY: Duration = Duration::from_micros(500);
/// Time that the victim's processor takes for a datagram that it receives or sends.
const COST: Duration = Duration::from_micros(5);
/// Maximum number of datagrams that the victim receives, and sends, before it looks at the others, as the library's driver has one.
const TURN: usize = 64;
/// Interval of the attacker's bursts, and number of datagrams in each.
const BURST_INTERVAL: Duration = Duration::from_millis(1);
pub(super) const BURST: u64 = 16;
/// Interval of the neighbour's requests, and lengths of requests and responses.
const REQUEST_INTERVAL: Duration = Duration::from_millis(2);
const REQUEST: [u8; 100] = [1; 100];
const RESPONSE: [u8; 1_000] = [2; 1_000];

pub(super) const VICTIM: SocketAddr = address(1);
const ATTACKER: SocketAddr = address(2);
const NEIGHBOUR: SocketAddr = address(3);

const fn address(last: u8) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 40_000 + last as u16)
}

/// A peer of the victim, with its end of their connection.
struct Peer {
    endpoint: Endpoint,
    handle: Option<Handle>,
    inbox: VecDeque<Flying>,
}

impl Peer {
    fn connection(&mut self) -> &mut Connection {
        self.endpoint.connection(self.handle.expect("a connection")).expect("the connection")
    }
}

pub(super) struct World {
    pub(super) now: Time,
    victim: Endpoint,
    attacker: Peer,
    neighbour: Peer,
    /// The victim's connections: to the attacker, and to the neighbour.
    handles: [Option<Handle>; 2],
    /// Streams of these connections that the victim has accepted.
    accepted: [Vec<StreamId>; 2],
    /// Datagrams on their way to the victim, in the order of their arrival.
    inbox: VecDeque<Flying>,
    /// Role of the victim in its connections.
    pub(super) role: Side,
    /// Time at which the victim's processor is free.
    free: Time,
    /// `true` if the victim may have more to send than a turn allows.
    has_more: bool,
    buf: TransmitBuf,
    /// Requests of the neighbour without a response, and their times.
    requests: Vec<(StreamId, Time)>,
    next_request: Time,
    /// Times from a request to the end of its response.
    pub(super) latencies: Vec<Duration>,
    pub(super) meter: Meter,
    /// Error with which the victim's connection to the attacker ended.
    pub(super) closed: Option<ConnectionError>,
    /// Number of datagrams that the victim sent to the attacker, or to addresses where nobody is.
    pub(super) sent: u64,
    /// `true` if the victim's application reads the attacker's streams.
    pub(super) is_reading: bool,
    /// `true` if everything that the victim sends to the attacker is lost.
    pub(super) withhold: bool,
}

impl World {
    /// Connects a victim that has this role in its connections.
    pub(super) fn new(victim: Side, change: impl Fn(&mut TransportConfig)) -> Self {
        seed_thread(7);
        let (mut client_config, mut server_config) = configs();
        for transport in [&mut client_config.transport, &mut server_config.transport] {
            change(Arc::make_mut(transport));
        }
        let client = |seed| Endpoint::new(&EndpointConfig::new([seed; 32]), None);
        let server = || server_endpoint(&server_config);
        let peer = |endpoint| Peer { endpoint, handle: None, inbox: VecDeque::new() };
        let (mut end, mut attacker, mut neighbour) = match victim {
            Side::Server => (server(), peer(client(3)), peer(client(4))),
            Side::Client => (client(3), peer(server()), peer(server())),
        };
        let now = Time::from_millis(1_000);
        let mut handles = [None; 2];
        for (index, (peer, at)) in
            [(&mut attacker, ATTACKER), (&mut neighbour, NEIGHBOUR)].into_iter().enumerate()
        {
            let (connecting, local, remote) = match victim {
                Side::Server => (&mut peer.endpoint, at, VICTIM),
                Side::Client => (&mut end, VICTIM, at),
            };
            let handle =
                connecting.connect(now, &client_config, FourTuple { local, remote }, "localhost").unwrap();
            match victim {
                Side::Server => peer.handle = Some(handle),
                Side::Client => handles[index] = Some(handle),
            }
        }
        let mut world = Self {
            now,
            victim: end,
            attacker,
            neighbour,
            handles,
            accepted: Default::default(),
            inbox: VecDeque::new(),
            role: victim,
            free: now,
            has_more: true,
            buf: TransmitBuf::new(16),
            requests: Vec::new(),
            next_request: now + Duration::from_secs(1),
            latencies: Vec::new(),
            meter: Meter::default(),
            closed: None,
            sent: 0,
            is_reading: true,
            withhold: false,
        };
        world.run_for(Duration::from_millis(1_500));
        assert!(world.latencies.len() > 200, "the neighbour is served");
        world.latencies.clear();
        world
    }

    /// Returns the attacker's end of its connection.
    pub(super) fn attacker(&mut self) -> &mut Connection {
        self.attacker.connection()
    }

    /// Sends a datagram to the victim, from `remote` or from the attacker's own address.
    pub(super) fn send(&mut self, remote: Option<SocketAddr>, bytes: Vec<u8>) {
        let tuple = FourTuple { local: VICTIM, remote: remote.unwrap_or(ATTACKER) };
        enter(&mut self.inbox, Flying { at: self.now + DELAY, tuple, ecn: None, bytes });
    }

    /// Sends `datagrams` datagrams in bursts, as long as the victim's connection to the attacker is open. `make` sends one of them.
    /// Returns the number of datagrams sent.
    pub(super) fn attack(&mut self, datagrams: u64, mut make: impl FnMut(&mut Self, u64)) -> u64 {
        let mut sent = 0;
        while sent < datagrams && self.closed.is_none() {
            for _ in 0..BURST.min(datagrams - sent) {
                make(self, sent);
                sent += 1;
            }
            self.run_for(BURST_INTERVAL);
        }
        self.run_for(4 * DELAY);
        sent
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.peers_send();
            let turn = [self.inbox.front().map(|flying| flying.at), self.victim.poll_timeout()];
            let more = self.has_more.then_some(self.free);
            let turn = turn.into_iter().flatten().chain(more).min().map(|at| at.max(self.free));
            let peers = [&self.attacker, &self.neighbour].map(|peer| {
                let times = [peer.inbox.front().map(|flying| flying.at), peer.endpoint.poll_timeout()];
                times.into_iter().flatten().min()
            });
            // An attacker that receives nothing does nothing by itself, such as sending probes.
            let peers = peers.into_iter().skip(usize::from(self.withhold));
            let next = peers.flatten().chain(turn).chain([self.next_request]).min();
            match next.filter(|next| *next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
            if turn.is_some_and(|turn| turn <= self.now) {
                self.turn();
            }
            self.peers_receive();
            self.request();
        }
        self.now = end;
    }

    /// Has the victim receive, respond and send, and counts what that takes.
    fn turn(&mut self) {
        let arrived = self.inbox.iter().take(TURN).take_while(|flying| flying.at <= self.now).count();
        let mut datagrams: Vec<Flying> = self.inbox.drain(..arrived).collect();
        let mut batch: Vec<Datagram<'_>> = datagrams
            .iter_mut()
            .map(|flying| Datagram { tuple: flying.tuple, ecn: flying.ecn, payload: &mut flying.bytes })
            .collect();
        let Self { now, victim, handles, accepted, closed, buf, is_reading, .. } = self;
        let mut sent = Vec::with_capacity(TURN);
        self.meter.charge(|| {
            victim.handle_batch(*now, &mut batch);
            victim.handle_timeout(*now);
            while let Some((handle, event)) = victim.poll_event() {
                note(handle, &event, handles, closed, victim);
            }
            for (index, (handle, accepted)) in handles.iter().zip(accepted).enumerate() {
                if (index == 1 || *is_reading)
                    && let Some(connection) = handle.and_then(|handle| victim.connection(handle))
                {
                    serve(connection.streams(), accepted, index == 1);
                }
            }
        });
        while sent.len() < TURN {
            let Some(transmit) = self.meter.charge(|| victim.poll_transmit(*now, buf)) else { break };
            let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
            let payloads = buf.filled(&transmit).chunks(transmit.segment_size);
            sent.extend(payloads.map(|bytes| (tuple, transmit.ecn, bytes.to_vec())));
        }
        self.has_more = sent.len() >= TURN;
        let work = u32::try_from(arrived + sent.len()).unwrap();
        self.free = self.now + COST * work;
        for (tuple, ecn, bytes) in sent {
            let flying = Flying { at: self.free + DELAY, tuple, ecn, bytes };
            match tuple.local {
                NEIGHBOUR => self.neighbour.inbox.push_back(flying),
                ATTACKER if !self.withhold => self.attacker.inbox.push_back(flying),
                _ => self.sent += 1,
            }
        }
    }

    fn peers_receive(&mut self) {
        for peer in [&mut self.attacker, &mut self.neighbour] {
            let arrived = peer.inbox.iter().take_while(|flying| flying.at <= self.now).count();
            deliver(&mut peer.endpoint, self.now, peer.inbox.drain(..arrived).collect(), usize::MAX);
        }
    }

    fn peers_send(&mut self) {
        for (index, peer) in [&mut self.attacker, &mut self.neighbour].into_iter().enumerate() {
            if index == 0 && self.withhold {
                continue;
            }
            peer.endpoint.handle_timeout(self.now);
            for sent in drain(&mut peer.endpoint, self.now) {
                enter(&mut self.inbox, Flying { at: self.now + DELAY, ..sent });
            }
            while let Some((handle, event)) = peer.endpoint.poll_event() {
                peer.handle = Some(handle);
                assert!(index == 0 || !matches!(event, Event::Closed(_)), "{event:?}");
            }
        }
    }

    /// Sends the neighbour's next request if it is time, and looks for responses.
    fn request(&mut self) {
        let now = self.now;
        if self.neighbour.handle.is_none() {
            return;
        }
        let streams = self.neighbour.connection().streams();
        if now >= self.next_request {
            let id = streams.open(Dir::Bi).expect("credit for a request");
            assert_eq!(streams.write(id, &REQUEST).unwrap(), REQUEST.len());
            streams.finish(id).unwrap();
            self.requests.push((id, now));
            self.next_request = now + REQUEST_INTERVAL;
        }
        let latencies = &mut self.latencies;
        self.requests.retain(|(id, since)| {
            let is_over = read(streams, *id);
            if is_over {
                latencies.push(now - *since);
            }
            !is_over
        });
    }
}

/// Keeps what the oracle has to know of a victim's event.
fn note(
    handle: Handle,
    event: &Event,
    handles: &mut [Option<Handle>; 2],
    closed: &mut Option<ConnectionError>,
    victim: &mut Endpoint,
) {
    if !handles.contains(&Some(handle))
        && let Some(connection) = victim.connection(handle)
    {
        match connection.remote_address() {
            ATTACKER => handles[0] = Some(handle),
            NEIGHBOUR => handles[1] = Some(handle),
            _ => {}
        }
    }
    if let Event::Closed(error) = event {
        assert_ne!(handles[1], Some(handle), "the neighbour's connection ended: {error}");
        if handles[0] == Some(handle) {
            *closed = Some(error.clone());
        }
    }
}

/// Accepts streams and reads them to their ends, as the victim's application, and sends a response on each.
fn serve(streams: &mut Streams, accepted: &mut Vec<StreamId>, responds: bool) {
    for dir in [Dir::Bi, Dir::Uni] {
        while let Some(id) = streams.accept(dir) {
            accepted.push(id);
        }
    }
    accepted.retain(|id| {
        let is_over = read(streams, *id);
        if is_over && responds {
            assert_eq!(streams.write(*id, &RESPONSE).unwrap(), RESPONSE.len());
            streams.finish(*id).unwrap();
        }
        !is_over
    });
}

/// Reads everything that has arrived on a stream. Returns `true` at its end.
fn read(streams: &mut Streams, id: StreamId) -> bool {
    loop {
        match streams.peek(id) {
            Ok(bytes) => {
                let len = bytes.len();
                streams.consume(id, len).unwrap();
            }
            Err(ReadError::Blocked) => return false,
            Err(_) => return true,
        }
    }
}

/// Adds a datagram to those on their way, in the order of arrival.
fn enter(queue: &mut VecDeque<Flying>, flying: Flying) {
    let at = queue.partition_point(|other| other.at <= flying.at);
    queue.insert(at, flying);
}
