//! Host behind one end of a tunnel, whose packets are the messages of the tunnel's connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anabranch_transport::{Endpoint, Handle};
use anabranch_wire::{Ecn, Time};

use crate::app::Application;
use crate::network::HostId;
use crate::node::{Node, Outlet};
use crate::packet::Packet;

/// Number of all hosts behind tunnels, which are part of no network.
const HOST: HostId = HostId(usize::MAX);

/// A host whose packets leave through a queue of its own.
pub(super) struct Inner {
    node: Node,
    out: Queue,
    /// Addresses of the packets that arrive, source first.
    arrives: (SocketAddr, SocketAddr),
}

/// Packets that a host sent, and the time at which it has to be woken.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Vec<u8>>,
    wake: Option<Time>,
}

impl Outlet for Queue {
    fn send(&mut self, _: Time, _: (SocketAddr, SocketAddr), _: Option<Ecn>, payload: &[u8]) {
        self.packets.push_back(payload.to_vec());
    }

    fn noted(&mut self, _: Time, _: Handle) {}

    fn wake(&mut self, at: Time) {
        self.wake = Some(at);
    }
}

impl Inner {
    /// Creates a host at `local` whose only peer is at `remote`.
    pub(super) fn new(
        endpoint: Endpoint,
        application: Box<dyn Application>,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Self {
        let node = Node::new(HOST, endpoint, application);
        Self { node, out: Queue::default(), arrives: (remote, local) }
    }

    /// Starts the host's application.
    pub(super) fn start(&mut self, now: Time) {
        // A host that spins is found by the simulation's own limit of events at one instant.
        let _ = self.node.start(now, &mut self.out);
    }

    /// Returns the time at which [`Self::wake`] must be called.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.out.wake
    }

    /// Handles the deadlines that have passed.
    pub(super) fn wake(&mut self, now: Time) {
        if self.out.wake.is_some_and(|at| at <= now) {
            self.out.wake = None;
            let _ = self.node.wake(now, &mut self.out);
        }
    }

    /// Passes a received packet to the host.
    pub(super) fn arrive(&mut self, now: Time, payload: &[u8]) {
        let (source, destination) = self.arrives;
        let packet = Packet { source, destination, ecn: None, payload: payload.to_vec() };
        self.out.wake = None;
        let _ = self.node.arrive(now, &mut [packet], &mut self.out);
    }

    /// Returns the next packet that the host sends.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.out.packets.pop_front()
    }

    /// Returns the host's application.
    pub(super) fn application(&self) -> &dyn Application {
        &*self.node.application
    }
}
