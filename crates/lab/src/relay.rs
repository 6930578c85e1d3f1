//! A link in real time: a UDP relay in user space between clients and a server, for endpoints of any
//! implementation.
//!
//! Datagrams go through the same elements as in a simulation. Times in the link's description count from the
//! first datagram. ECN marks are not carried over: the standard library's sockets neither see nor set them.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_wire::Time;

use crate::events::Events;
use crate::link::{Chain, Counters, LinkSpec, Rebinding};
use crate::packet::{Buffers, Packet};
use crate::random::Seed;

/// Client addresses that a relay serves; datagrams of further ones are dropped.
const MAX_CLIENTS: usize = 4096;
/// Datagrams between the sockets and the link; further ones are dropped as by a full socket buffer.
const MAX_PENDING: usize = 4096;
/// How often blocked threads look whether the relay is to stop.
const PATIENCE: Duration = Duration::from_millis(20);
/// Largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

/// Sees each datagram at the server's end of the link, with the client it belongs to; `false` drops it.
pub type Tap = Box<dyn FnMut(Way, SocketAddr, &[u8]) -> bool + Send>;

/// A running relay; it stops when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counters: Arc<Mutex<[Counters; 2]>>,
    engine: Option<JoinHandle<()>>,
}

impl Relay {
    /// Relays between clients that send to `listen` and `server`, over a link like `spec` whose chance
    /// follows from `seed`. Each client reaches the server from a socket of its own, which is exchanged at
    /// every rebinding of `spec` (bound to the rebinding's IP address if it names one; the system chooses the
    /// port).
    pub fn start(listen: SocketAddr, server: SocketAddr, spec: &LinkSpec, seed: Seed) -> io::Result<Self> {
        Self::tapped(listen, server, spec, seed, Box::new(|_, _, _| true))
    }

    /// Like [`Relay::start`], with somebody who watches.
    pub fn tapped(
        listen: SocketAddr,
        server: SocketAddr,
        spec: &LinkSpec,
        seed: Seed,
        tap: Tap,
    ) -> io::Result<Self> {
        let socket = bind(listen)?;
        let address = socket.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::default();
        let (inbox_in, inbox) = sync_channel(MAX_PENDING);
        read(socket.try_clone()?, inbox_in.clone(), Arc::clone(&stop), Input::FromClient);
        let engine = Engine {
            socket,
            server,
            tap,
            chains: spec.build(None, seed, "relay"),
            rebindings: spec.rebindings().to_vec(),
            sessions: Vec::new(),
            events: Events::default(),
            buffers: Buffers::default(),
            clock: Clock::default(),
            inbox_in,
            stop: Arc::clone(&stop),
            counters: Arc::clone(&counters),
        };
        let engine = thread::spawn(move || engine.run(&inbox));
        Ok(Self { address, stop, counters, engine: Some(engine) })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Numbers so far: from clients to the server, and back.
    pub fn counters(&self) -> [Counters; 2] {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(engine) = self.engine.take() {
            // A panic of the engine has been printed by itself.
            let _ = engine.join();
        }
    }
}

enum Input {
    /// A datagram from a client.
    FromClient(SocketAddr, Vec<u8>),
    /// A datagram from the server to the client.
    ToClient(SocketAddr, Vec<u8>),
}

enum Event {
    ToServer(Packet),
    ToClient(Packet),
    /// Exchange every client's socket.
    Rebind(Rebinding),
}

/// One client and the socket that represents it towards the server.
struct Session {
    client: SocketAddr,
    upstream: UdpSocket,
    /// Tells the thread that reads `upstream` to end.
    retired: Arc<AtomicBool>,
}

/// Relay time: starts with the first datagram.
#[derive(Default)]
struct Clock {
    started: Option<Instant>,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the relay is a driver: it turns real time into the lab's time"
    )]
    fn now(&mut self) -> Time {
        let now = Instant::now();
        Time::ZERO + now.duration_since(*self.started.get_or_insert(now))
    }
}

struct Engine {
    socket: UdpSocket,
    server: SocketAddr,
    tap: Tap,
    /// To the server, and back.
    chains: [Chain; 2],
    rebindings: Vec<Rebinding>,
    sessions: Vec<Session>,
    events: Events<Event>,
    buffers: Buffers,
    clock: Clock,
    inbox_in: SyncSender<Input>,
    stop: Arc<AtomicBool>,
    counters: Arc<Mutex<[Counters; 2]>>,
}

impl Engine {
    fn run(mut self, inbox: &Receiver<Input>) {
        for rebinding in std::mem::take(&mut self.rebindings) {
            self.events.add(rebinding.from, Event::Rebind(rebinding));
        }
        while !self.stop.load(Ordering::Relaxed) {
            let patience = match self.events.next_time() {
                Some(next) if self.clock.started.is_some() => (next - self.clock.now()).min(PATIENCE),
                _ => PATIENCE,
            };
            match inbox.recv_timeout(patience) {
                Ok(input) => self.enter(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.leave();
        }
        for session in &self.sessions {
            session.retired.store(true, Ordering::Relaxed);
        }
    }

    /// A datagram enters the link.
    fn enter(&mut self, input: Input) {
        let now = self.clock.now();
        let mut arrivals = Vec::new();
        let (direction, source, destination, payload) = match input {
            Input::FromClient(client, payload) => (0, client, self.server, payload),
            Input::ToClient(client, payload) if !(self.tap)(Way::ToClient, client, &payload) => return,
            Input::ToClient(client, payload) => (1, self.server, client, payload),
        };
        let packet = Packet { source, destination, ecn: None, payload };
        self.chains[direction].push(now, packet, &mut self.buffers, &mut arrivals);
        for (at, packet) in arrivals {
            let event = if direction == 0 { Event::ToServer(packet) } else { Event::ToClient(packet) };
            self.events.add(at, event);
        }
        let counters = [self.chains[0].counters(), self.chains[1].counters()];
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// Sends what has reached the end of the link. What a socket refuses is lost, as in any network.
    fn leave(&mut self) {
        if self.clock.started.is_none() {
            return;
        }
        let now = self.clock.now();
        while self.events.next_time().is_some_and(|at| at <= now) {
            match self.events.pop() {
                Some((_, Event::ToServer(packet))) => {
                    if (self.tap)(Way::ToServer, packet.source, &packet.payload)
                        && let Some(session) = self.session(packet.source)
                    {
                        let _ = session.upstream.send(&packet.payload);
                    }
                    self.buffers.give(packet.payload);
                }
                Some((_, Event::ToClient(packet))) => {
                    let _ = self.socket.send_to(&packet.payload, packet.destination);
                    self.buffers.give(packet.payload);
                }
                Some((_, Event::Rebind(rebinding))) => self.rebind(rebinding.ip),
                None => break,
            }
        }
    }

    /// The session of `client`, opened if it is new; `None` when there are too many or no socket is to be
    /// had.
    fn session(&mut self, client: SocketAddr) -> Option<&Session> {
        let index = match self.sessions.iter().position(|session| session.client == client) {
            Some(index) => index,
            None if self.sessions.len() >= MAX_CLIENTS => return None,
            None => {
                let session = self.open(client, None).ok()?;
                self.sessions.push(session);
                self.sessions.len() - 1
            }
        };
        self.sessions.get(index)
    }

    fn open(&self, client: SocketAddr, ip: Option<IpAddr>) -> io::Result<Session> {
        let local = SocketAddr::new(ip.unwrap_or(self.socket.local_addr()?.ip()), 0);
        let upstream = bind(local)?;
        upstream.connect(self.server)?;
        let retired = Arc::new(AtomicBool::new(false));
        let reader = upstream.try_clone()?;
        read(reader, self.inbox_in.clone(), Arc::clone(&retired), move |_, bytes| {
            Input::ToClient(client, bytes)
        });
        Ok(Session { client, upstream, retired })
    }

    /// Exchanges every client's socket; a client for which there is none keeps the old one.
    fn rebind(&mut self, ip: Option<IpAddr>) {
        for index in 0..self.sessions.len() {
            if let Ok(session) = self.open(self.sessions[index].client, ip) {
                let old = std::mem::replace(&mut self.sessions[index], session);
                old.retired.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Starts a thread that reads `socket` until `stop` is set or nobody listens any longer.
fn read(
    socket: UdpSocket,
    inbox: SyncSender<Input>,
    stop: Arc<AtomicBool>,
    input: impl Fn(SocketAddr, Vec<u8>) -> Input + Send + 'static,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; MAX_DATAGRAM];
        while !stop.load(Ordering::Relaxed) {
            // Timeouts and the peer's refusals (ICMP) are no reason to end.
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if let Err(TrySendError::Disconnected(_)) = inbox.try_send(input(from, buffer[..len].to_vec())) {
                break;
            }
        }
    });
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
