//! Host of the simulation, which connects an endpoint to its application and to the network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_transport::{Datagram, Endpoint, Event, FourTuple, Handle, TransmitBuf};
use anabranch_wire::{Ecn, Time};
use smallvec::SmallVec;

use crate::app::Application;
use crate::network::{HostId, Network};
use crate::packet::Packet;
use crate::trace::Kind;

/// Maximum number of datagrams in a batch that a node sends, as with segmentation offload.
const BATCH: usize = 10;
/// Maximum number of rounds of events and transmissions at one instant. A node that exceeds it counts as
/// spinning.
const MAX_ROUNDS: usize = 100_000;

/// Receiver of a node's datagrams and wake-ups: the network of its simulation, or the answer of a guest.
pub(crate) trait Outlet {
    /// Sends a datagram from the host, with its own address first in `tuple`.
    fn send(&mut self, now: Time, tuple: (SocketAddr, SocketAddr), ecn: Option<Ecn>, payload: &[u8]);

    /// Records that the host's application receives an event of a connection.
    fn noted(&mut self, now: Time, handle: Handle);

    /// Schedules a wake-up of the host at `at`.
    fn wake(&mut self, at: Time);
}

/// Outlet of a host that sends directly to the network.
pub(crate) struct Port<'a> {
    pub(crate) host: HostId,
    pub(crate) network: &'a mut Network,
}

impl Outlet for Port<'_> {
    fn send(&mut self, now: Time, tuple: (SocketAddr, SocketAddr), ecn: Option<Ecn>, payload: &[u8]) {
        self.network.send(now, self.host, tuple, ecn, payload);
    }

    fn noted(&mut self, now: Time, handle: Handle) {
        self.network.trace().record(now, Kind::Application, self.host.0, handle.0 as u64);
    }

    fn wake(&mut self, at: Time) {
        self.network.wake(self.host, at);
    }
}

/// Driver of an endpoint. After each change it drains the endpoint's events and transmissions, then schedules
/// its deadline.
pub struct Node {
    host: HostId,
    pub(crate) endpoint: Endpoint,
    pub(crate) application: Box<dyn Application>,
    batch: TransmitBuf,
    /// Functions that create the observers of connections.
    watchers: Vec<Watcher>,
    /// Observed connections, with `true` if the connection has ended. Handles are reused.
    watched: BTreeMap<Handle, bool>,
}

/// Function that creates a connection's observer.
type Watcher = Box<dyn FnMut(Handle) -> Box<dyn Observer>>;

/// Several observers of one connection.
struct Observers(Vec<Box<dyn Observer>>);

impl Observer for Observers {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        for observer in &mut self.0 {
            observer.event(time, event);
        }
    }
}

impl Node {
    pub(crate) fn new(host: HostId, endpoint: Endpoint, application: Box<dyn Application>) -> Self {
        let batch = TransmitBuf::new(BATCH);
        Self { host, endpoint, application, batch, watchers: Vec::new(), watched: BTreeMap::new() }
    }

    /// Calls `watcher` for each future connection of the host to create its observer.
    pub(crate) fn observe(&mut self, watcher: Watcher) {
        self.watchers.push(watcher);
    }

    fn watch_new(&mut self, now: Time) {
        if self.watchers.is_empty() {
            return;
        }
        for handle in (0..self.watched.len() + self.endpoint.len()).map(Handle) {
            if self.watched.get(&handle) == Some(&false) {
                continue; // Access to a connection has it polled, which would change the observed behaviour.
            }
            let Some(connection) = self.endpoint.connection(handle) else { continue };
            if self.watched.get(&handle).is_none_or(|ended| *ended && !connection.is_closed()) {
                let observers = self.watchers.iter_mut().map(|watcher| watcher(handle)).collect();
                connection.set_observer(now, Box::new(Observers(observers)));
                self.watched.insert(handle, false);
            }
        }
    }

    /// Starts the application.
    pub(crate) fn start(&mut self, now: Time, out: &mut impl Outlet) -> Result<(), Spinning> {
        self.application.start(now, &mut self.endpoint);
        self.drain(now, out)
    }

    /// Handles received datagrams.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        packets: &mut [Packet],
        out: &mut impl Outlet,
    ) -> Result<(), Spinning> {
        let mut batch: SmallVec<[Datagram<'_>; 8]> = packets
            .iter_mut()
            .map(|packet| Datagram {
                tuple: FourTuple { local: packet.destination, remote: packet.source },
                ecn: packet.ecn,
                payload: &mut packet.payload,
            })
            .collect();
        self.endpoint.handle_batch(now, &mut batch);
        self.drain(now, out)
    }

    /// Handles the deadlines that have passed.
    pub(crate) fn wake(&mut self, now: Time, out: &mut impl Outlet) -> Result<(), Spinning> {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        if self.application.next_time().is_some_and(|at| at <= now) {
            self.application.on_time(now, &mut self.endpoint);
        }
        self.drain(now, out)
    }

    /// Passes on events and transmissions until the endpoint has none left. Then schedules a wake-up at its
    /// deadline.
    pub(crate) fn drain(&mut self, now: Time, out: &mut impl Outlet) -> Result<(), Spinning> {
        let mut rounds = 0;
        loop {
            self.watch_new(now);
            let mut idle = true;
            while let Some((handle, event)) = self.endpoint.poll_event() {
                idle = false;
                if let Event::Closed(_) = &event
                    && let Some(ended) = self.watched.get_mut(&handle)
                {
                    *ended = true;
                }
                out.noted(now, handle);
                self.application.on_event(now, &mut self.endpoint, handle, event);
            }
            while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.batch) {
                idle = false;
                let tuple = (transmit.tuple.local, transmit.tuple.remote);
                for payload in self.batch.filled(&transmit).chunks(transmit.segment_size.max(1)) {
                    out.send(now, tuple, transmit.ecn, payload);
                }
            }
            if idle {
                break;
            }
            rounds += 1;
            if rounds > MAX_ROUNDS {
                return Err(Spinning(self.host));
            }
        }
        let deadline =
            [self.endpoint.poll_timeout(), self.application.next_time()].into_iter().flatten().min();
        if let Some(deadline) = deadline {
            out.wake(deadline.max(now));
        }
        Ok(())
    }
}

/// Error of a host that does not come to rest within one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinning(pub HostId);
