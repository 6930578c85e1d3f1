//! A simulation: hosts that run endpoints, on one network, in virtual time.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_seeded::{VirtualClock, seed_thread};
use anabranch_transport::trace::Observer;
use anabranch_transport::{Endpoint, Handle};
use anabranch_wire::Time;

use crate::app::Application;
use crate::guest::{Guest, GuestNode};
use crate::link::LinkSpec;
use crate::log::Log;
use crate::network::{Happening, HostId, LinkId, Network};
use crate::node::{Node, Port, Spinning};
use crate::packet::Packet;
use crate::random::{Rng, Seed};

/// Maximum number of events at one instant. A simulation that exceeds it counts as spinning.
const MAX_AT_ONCE: u64 = 20_000;

/// Reason that a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The awaited condition holds.
    Done,
    /// No event is left.
    Quiet,
    /// The deadline was reached first.
    Deadline,
    /// A host handles events for ever without letting time pass.
    Spinning(HostId),
}

/// Stack that runs on a host.
enum Host {
    /// Endpoint of this library and its application.
    Own(Box<Node>),
    /// Stack behind the guest protocol.
    Guest(Box<GuestNode>),
}

impl Host {
    /// Returns the endpoint with its application.
    ///
    /// # Panics
    /// Panics if the host runs a guest.
    #[expect(
        clippy::panic,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    fn own(&self) -> &Node {
        match self {
            Self::Own(node) => node,
            Self::Guest(_) => panic!("a host with an endpoint of ours"),
        }
    }

    /// Returns the endpoint with its application like [`Self::own`], to change it.
    #[expect(clippy::panic, reason = "as for `own`")]
    fn own_mut(&mut self) -> &mut Node {
        match self {
            Self::Own(node) => node,
            Self::Guest(_) => panic!("a host with an endpoint of ours"),
        }
    }
}

/// Simulation state: the hosts, the network and the packets in it.
pub struct Simulation {
    seed: Seed,
    now: Time,
    network: Network,
    hosts: Vec<Host>,
    clock: Arc<VirtualClock>,
    started: usize,
    arrived: Vec<Packet>,
    /// Host of the most recent event.
    last: HostId,
}

impl Simulation {
    /// Creates an empty simulation at [`Time::ZERO`]. This seeds the randomness of TLS for the current
    /// thread, so each thread can run only one simulation at a time.
    pub fn new(seed: Seed) -> Self {
        seed_thread(seed.0);
        Self {
            seed,
            now: Time::ZERO,
            network: Network::new(seed),
            hosts: Vec::new(),
            clock: VirtualClock::new(),
            started: 0,
            arrived: Vec::new(),
            last: HostId(0),
        }
    }

    /// Returns the random number generator for `label`.
    pub fn rng(&self, label: &str) -> Rng {
        self.seed.rng(label)
    }

    /// Returns the clock that TLS configurations of this simulation should use.
    pub fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.clock)
    }

    /// Adds a host that runs `endpoint` and `application`. The application starts when the simulation next
    /// runs.
    pub fn add_node(&mut self, endpoint: Endpoint, application: impl Application) -> HostId {
        let host = self.network.add_host();
        self.hosts.push(Host::Own(Box::new(Node::new(host, endpoint, Box::new(application)))));
        host
    }

    /// Adds a host that runs `guest`. `paths` are the pairs of addresses between which the guest may send,
    /// its own address first.
    pub fn add_guest(&mut self, guest: Box<dyn Guest>, paths: Vec<(SocketAddr, SocketAddr)>) -> HostId {
        let host = self.network.add_host();
        self.hosts.push(Host::Guest(Box::new(GuestNode::new(host, guest, paths))));
        host
    }

    /// Returns the guest on `host`.
    ///
    /// # Panics
    /// Panics if the host runs an endpoint of this library.
    #[expect(
        clippy::panic,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    pub fn guest(&self, host: HostId) -> &GuestNode {
        match &self.hosts[host.0] {
            Host::Guest(guest) => guest,
            Host::Own(_) => panic!("a host with a guest"),
        }
    }

    /// Adds a link between two hosts, each given with its address on the link.
    pub fn add_link(&mut self, first: (HostId, IpAddr), second: (HostId, IpAddr), spec: &LinkSpec) -> LinkId {
        self.network.add_link(first, second, spec)
    }

    /// Prints all events of the connections of `host` to standard error.
    pub fn watch(&mut self, host: HostId) {
        self.observe(host, move |handle| Box::new(Log::new(host, handle)));
    }

    /// Calls `watcher` for each future connection of `host` to create its observer.
    pub fn observe(&mut self, host: HostId, watcher: impl FnMut(Handle) -> Box<dyn Observer> + 'static) {
        self.hosts[host.0].own_mut().observe(Box::new(watcher));
    }

    /// Returns the current simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the network, to change links or to read their counters.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Returns the application of `host`.
    ///
    /// # Panics
    /// Panics if the host runs an application of another type.
    #[expect(
        clippy::expect_used,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    pub fn application<A: Application>(&self, host: HostId) -> &A {
        let application: &dyn Any = &*self.hosts[host.0].own().application;
        application.downcast_ref().expect("an application of the type that was added")
    }

    /// Returns the endpoint of `host`.
    pub fn endpoint(&self, host: HostId) -> &Endpoint {
        &self.hosts[host.0].own().endpoint
    }

    /// Calls `f` with the endpoint of `host` from outside an event. Resulting packets are sent at once.
    pub fn with_endpoint<T>(&mut self, host: HostId, f: impl FnOnce(Time, &mut Endpoint) -> T) -> T {
        let node = self.hosts[host.0].own_mut();
        let result = f(self.now, &mut node.endpoint);
        // A spinning host is detected when the simulation continues, because it is still spinning then.
        let _ = node.drain(self.now, &mut Port { host, network: &mut self.network });
        result
    }

    /// Calls `f` with the application of `host` and its endpoint. Resulting packets are sent at once.
    ///
    /// # Panics
    /// Panics if the host runs an application of another type.
    #[expect(
        clippy::expect_used,
        reason = "asking for another type is a fault of the caller's code, not of its input"
    )]
    pub fn with_node<A: Application>(&mut self, host: HostId, f: impl FnOnce(&mut A, Time, &mut Endpoint)) {
        let node = self.hosts[host.0].own_mut();
        let application: &mut dyn Any = &mut *node.application;
        let application = application.downcast_mut().expect("an application of the type that was added");
        f(application, self.now, &mut node.endpoint);
        // A spinning host is detected later, as in `with_endpoint`.
        let _ = node.drain(self.now, &mut Port { host, network: &mut self.network });
    }

    /// Runs until `done` returns `true`, until no event is left, or until `deadline`. `done` is called after
    /// every event.
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
        while let Some(host) = self.hosts.get_mut(self.started) {
            let mut port = Port { host: HostId(self.started), network: &mut self.network };
            self.started += 1;
            match host {
                Host::Own(node) => node.start(self.now, &mut port)?,
                Host::Guest(guest) => guest.step(self.now, &[], port.network),
            }
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
                let network = &mut self.network;
                let result = match &mut self.hosts[host.0] {
                    Host::Own(node) => node.arrive(now, &mut self.arrived, &mut Port { host, network }),
                    Host::Guest(guest) => {
                        guest.step(now, &self.arrived, network);
                        Ok(())
                    }
                };
                for packet in self.arrived.drain(..) {
                    self.network.recycle(packet);
                }
                result
            }
            Some((now, Happening::Wake(host))) => {
                self.last = host;
                let network = &mut self.network;
                match &mut self.hosts[host.0] {
                    Host::Own(node) => node.wake(now, &mut Port { host, network }),
                    Host::Guest(guest) => {
                        guest.step(now, &[], network);
                        Ok(())
                    }
                }
            }
            None => Ok(()),
        }
    }
}
