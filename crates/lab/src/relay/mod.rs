//! Link in real time: a user-space UDP relay between clients and a server, for endpoints of any
//! implementation.
//!
//! Datagrams pass the same elements as in a simulation. Times in the link's description count from the first
//! datagram.

mod reader;
mod sessions;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_wire::Time;

use self::reader::Sockets;
use self::sessions::{MAX_CLIENTS, Sessions};
use self::socket::{Arrived, Batch, Socket};
use crate::events::Events;
use crate::link::{Blackout, Chain, Counters, LinkSpec, Rebinding};
use crate::packet::{Buffers, Packet};
use crate::random::Seed;

/// Maximum number of reads that are queued between the sockets and the link. Further ones are dropped, as by
/// a full socket buffer.
const MAX_PENDING: usize = 4096;
/// Interval at which the engine checks whether the relay has been stopped.
const PATIENCE: Duration = Duration::from_millis(20);

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

/// Function that is called for each datagram at the server's end of the link, with the address of its client.
/// It returns `false` to drop the datagram.
pub type Tap = Box<dyn FnMut(Direction, SocketAddr, &[u8]) -> bool + Send>;

/// A running relay. It stops when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counters: Arc<Mutex<[Counters; 2]>>,
    inbox: SyncSender<Input>,
    engine: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay between clients that send to `listen` and the server at `server`, over a link as
    /// described by `spec`. The link's randomness follows from `seed`. Each client reaches the server from
    /// its own socket, which is replaced at every rebinding of `spec`, and after two minutes of silence. The new socket is bound to the
    /// rebinding's IP address, if any; the system chooses the port. `clock` returns the current time, for
    /// instance `Instant::now`; the lab itself never reads a clock.
    pub fn start(
        listen: SocketAddr,
        server: SocketAddr,
        spec: &LinkSpec,
        seed: Seed,
        clock: fn() -> Instant,
    ) -> io::Result<Self> {
        Self::tapped(listen, server, spec, seed, clock, Box::new(|_, _, _| true))
    }

    /// Starts a relay like [`Relay::start`], with a function `tap` that is called for the datagrams.
    pub fn tapped(
        listen: SocketAddr,
        server: SocketAddr,
        spec: &LinkSpec,
        seed: Seed,
        clock: fn() -> Instant,
        tap: Tap,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::default();
        let (inbox_in, inbox) = sync_channel(MAX_PENDING);
        let mut sockets = Sockets::start(inbox_in.clone(), Arc::clone(&stop))?;
        let (_, socket) = sockets.bind(listen, None)?;
        let address = socket.local_addr()?;
        let engine = Engine {
            socket,
            server,
            tap,
            chains: spec.build(None, seed, "relay"),
            rebindings: spec.rebindings().to_vec(),
            sessions: Sessions::new(sockets, address.ip(), MAX_CLIENTS),
            events: Events::default(),
            arrivals: Vec::new(),
            batch: Batch::default(),
            buffers: Buffers::default(),
            clock: Clock { read: clock, started: None },
            stop: Arc::clone(&stop),
            counters: Arc::clone(&counters),
        };
        let engine = thread::spawn(move || engine.run(&inbox));
        Ok(Self { address, stop, counters, inbox: inbox_in, engine: Some(engine) })
    }

    /// Returns the address to which clients send.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops all packets in both directions during `window`, counted from now. The window replaces the
    /// outages of the link's description.
    pub fn blackout(&self, window: Range<Duration>) {
        // If the engine has ended, all packets are dropped anyway.
        let _ = self.inbox.send(Input::Blackout(window));
    }

    /// Returns the counters so far: from clients to the server, and back.
    pub fn counters(&self) -> [Counters; 2] {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(engine) = self.engine.take() {
            // A panic of the engine has already been printed.
            let _ = engine.join();
        }
    }
}

enum Input {
    /// Datagrams that arrived from a client.
    FromClients(Arrived),
    /// Datagrams that arrived at a client's socket towards the server. Their source should be the server.
    ToClient(SocketAddr, Arrived),
    /// Outage, counted from now.
    Blackout(Range<Duration>),
}

enum Event {
    ToServer(Packet),
    ToClient(Packet),
    /// Replacement of every client's socket.
    Rebind(Rebinding),
}

/// Clock of the relay, which starts with the first datagram.
struct Clock {
    read: fn() -> Instant,
    started: Option<Instant>,
}

impl Clock {
    fn now(&mut self) -> Time {
        let now = (self.read)();
        Time::ZERO + now.duration_since(*self.started.get_or_insert(now))
    }
}

struct Engine {
    socket: Arc<Socket>,
    server: SocketAddr,
    tap: Tap,
    /// Directions of the link: to the server, and to the client.
    chains: [Chain; 2],
    rebindings: Vec<Rebinding>,
    sessions: Sessions,
    events: Events<Event>,
    /// Packets that leave the link; empty except while a packet is handled.
    arrivals: Vec<(Time, Packet)>,
    /// Packets queued to be sent to clients.
    batch: Batch,
    buffers: Buffers,
    clock: Clock,
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
    }

    /// Handles an input: received datagrams or an outage.
    fn enter(&mut self, input: Input) {
        match input {
            Input::FromClients(arrived) => {
                for (ecn, bytes) in arrived.datagrams() {
                    let payload = self.buffers.copy(bytes);
                    self.travel(0, Packet { source: arrived.from, destination: self.server, ecn, payload });
                }
            }
            Input::ToClient(client, arrived) if arrived.from == self.server => {
                let now = self.clock.now();
                self.sessions.note(client, now);
                for (ecn, bytes) in arrived.datagrams() {
                    if (self.tap)(Direction::ToClient, client, bytes) {
                        let payload = self.buffers.copy(bytes);
                        self.travel(1, Packet { source: self.server, destination: client, ecn, payload });
                    }
                }
            }
            // Datagrams whose source is not the server are dropped.
            Input::ToClient(..) => {}
            Input::Blackout(window) => {
                let now = self.clock.now();
                let window = now + window.start..now + window.end;
                self.chains.iter_mut().for_each(|chain| chain.set(Blackout::new([window.clone()])));
            }
        }
        let counters = [self.chains[0].counters(), self.chains[1].counters()];
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// Passes a packet into the link.
    fn travel(&mut self, direction: usize, packet: Packet) {
        let now = self.clock.now();
        self.chains[direction].push(now, packet, &mut self.buffers, &mut self.arrivals);
        for (at, packet) in self.arrivals.drain(..) {
            let event = if direction == 0 { Event::ToServer(packet) } else { Event::ToClient(packet) };
            self.events.add(at, event);
        }
    }

    /// Sends the packets that have reached the end of the link.
    fn leave(&mut self) {
        if self.clock.started.is_none() {
            return;
        }
        let now = self.clock.now();
        while self.events.next_time().is_some_and(|at| at <= now) {
            match self.events.pop() {
                Some((_, Event::ToServer(packet))) => {
                    if (self.tap)(Direction::ToServer, packet.source, &packet.payload) {
                        self.sessions.send(&packet, now);
                    }
                    self.buffers.give(packet.payload);
                }
                Some((_, Event::ToClient(packet))) => {
                    self.batch.add(&self.socket, &packet);
                    self.buffers.give(packet.payload);
                }
                Some((_, Event::Rebind(rebinding))) => self.sessions.rebind(rebinding.ip),
                None => break,
            }
        }
        self.batch.flush(&self.socket);
        self.sessions.flush();
    }
}

#[cfg(test)]
mod tests;
