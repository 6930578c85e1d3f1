//! A simulation: hosts that run endpoints, on one network, in virtual time.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_seeded::{VirtualClock, seed_thread};
use anabranch_transport::trace::Observer;
use anabranch_transport::{Endpoint, Handle};
use anabranch_wire::Time;

use crate::app::Application;
use crate::link::LinkSpec;
use crate::log::Log;
use crate::network::{Happening, HostId, LinkId, Network};
use crate::node::{Node, Spinning};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Happenings at one instant before time counts as standing still.
const MAX_AT_ONCE: u64 = 20_000;

/// Reason that a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The awaited condition holds.
    Done,
    /// Nothing will ever happen again.
    Quiet,
    /// The deadline came first.
    Deadline,
    /// A host works for ever without letting time pass.
    Spinning(HostId),
}

/// Everything that runs and what is on its way.
pub struct Simulation {
    seed: Seed,
    now: Time,
    network: Network,
    nodes: Vec<Node>,
    clock: Arc<VirtualClock>,
    started: usize,
    arrived: Vec<Packet>,
    /// The host that was last concerned.
    last: HostId,
}

impl Simulation {
    /// Creates an empty simulation at [`Time::ZERO`]. It seeds the randomness of TLS on this thread: run one
    /// at a time per thread.
    pub fn new(seed: Seed) -> Self {
        seed_thread(seed.0);
        Self {
            seed,
            now: Time::ZERO,
            network: Network::new(seed),
            nodes: Vec::new(),
            clock: VirtualClock::new(),
            started: 0,
            arrived: Vec::new(),
            last: HostId(0),
        }
    }

    /// Returns random numbers of its own for `label`.
    pub fn rng(&self, label: &str) -> Rng {
        self.seed.rng(label)
    }

    /// Returns the clock that TLS configurations of this simulation should use.
    pub fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.clock)
    }

    /// Adds a host that runs `endpoint` and `application`, which begins when the simulation next runs.
    pub fn add_node(&mut self, endpoint: Endpoint, application: impl Application) -> HostId {
        let host = self.network.add_host();
        self.nodes.push(Node::new(host, endpoint, Box::new(application)));
        host
    }

    /// Adds a link between two hosts, each with its address on it.
    pub fn add_link(&mut self, first: (HostId, IpAddr), second: (HostId, IpAddr), spec: &LinkSpec) -> LinkId {
        self.network.add_link(first, second, spec)
    }

    /// Has everything that the connections of `host` do printed to standard error.
    pub fn watch(&mut self, host: HostId) {
        self.observe(host, move |handle| Box::new(Log::new(host, handle)));
    }

    /// Has `watcher` make an observer for each connection of `host` that is to come.
    pub fn observe(&mut self, host: HostId, watcher: impl FnMut(Handle) -> Box<dyn Observer> + 'static) {
        self.nodes[host.0].observe(Box::new(watcher));
    }

    /// Returns the time in the simulation.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the network, to change links or to read their counters.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The application of `host`.
    ///
    /// # Panics
    /// If the host runs an application of another type.
    #[expect(
        clippy::expect_used,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    pub fn application<A: Application>(&self, host: HostId) -> &A {
        let application: &dyn Any = &*self.nodes[host.0].application;
        application.downcast_ref().expect("an application of the type that was added")
    }

    /// Returns the endpoint of `host`.
    pub fn endpoint(&self, host: HostId) -> &Endpoint {
        &self.nodes[host.0].endpoint
    }

    /// Does something to the endpoint of `host` from outside; what follows from it is sent at once.
    pub fn with_endpoint<T>(&mut self, host: HostId, f: impl FnOnce(Time, &mut Endpoint) -> T) -> T {
        let node = &mut self.nodes[host.0];
        let result = f(self.now, &mut node.endpoint);
        // A host that spins is found out when the simulation runs on: it is still spinning then.
        let _ = node.drain(self.now, &mut self.network);
        result
    }

    /// Has the application of `host` do something with its endpoint; what follows from it is sent at once.
    ///
    /// # Panics
    /// If the host runs an application of another type.
    #[expect(
        clippy::expect_used,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    pub fn with_node<A: Application>(&mut self, host: HostId, f: impl FnOnce(&mut A, Time, &mut Endpoint)) {
        let node = &mut self.nodes[host.0];
        let application: &mut dyn Any = &mut *node.application;
        let application = application.downcast_mut().expect("an application of the type that was added");
        f(application, self.now, &mut node.endpoint);
        // As in `with_endpoint`.
        let _ = node.drain(self.now, &mut self.network);
    }

    /// Runs until `done` says so, until nothing happens any more, or until `deadline`. `done` is asked after
    /// every happening.
    pub fn run(&mut self, deadline: Time, mut done: impl FnMut(&Self) -> bool) -> Outcome {
        let mut at_once = 0;
        if let Err(Spinning(host)) = self.start() {
            return Outcome::Spinning(host);
        }
        while !done(self) {
            match self.network.next_time() {
                None => return Outcome::Quiet,
                Some(at) if at > deadline => {
                    self.now = deadline;
                    return Outcome::Deadline;
                }
                Some(at) => {
                    at_once = if at == self.now { at_once + 1 } else { 0 };
                    self.now = at;
                }
            }
            self.clock.set(self.now);
            if let Err(Spinning(host)) = self.step() {
                return Outcome::Spinning(host);
            }
            if at_once > MAX_AT_ONCE {
                return Outcome::Spinning(self.last);
            }
        }
        Outcome::Done
    }

    fn start(&mut self) -> Result<(), Spinning> {
        while let Some(node) = self.nodes.get_mut(self.started) {
            self.started += 1;
            node.start(self.now, &mut self.network)?;
        }
        Ok(())
    }

    /// Handles the next event, together with all packets that reach the same host at the same instant.
    fn step(&mut self) -> Result<(), Spinning> {
        match self.network.next_event() {
            Some((now, Happening::Arrival(host, packet))) => {
                self.last = host;
                self.arrived.push(packet);
                while let Some(packet) = self.network.next_arrival(now, host) {
                    self.arrived.push(packet);
                }
                let result = self.nodes[host.0].arrive(now, &mut self.arrived, &mut self.network);
                for packet in self.arrived.drain(..) {
                    self.network.recycle(packet);
                }
                result
            }
            Some((now, Happening::Wake(host))) => {
                self.last = host;
                self.nodes[host.0].wake(now, &mut self.network)
            }
            None => Ok(()),
        }
    }
}
