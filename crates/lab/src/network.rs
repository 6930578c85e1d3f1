//! Hosts, the links between them, and the packets on the links.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::{Ecn, Time};
use slab::Slab;

use crate::events::Events;
use crate::link::{Blackout, Chain, Counters, LinkSpec, Nat, Rebinding};
use crate::packet::{Buffers, Packet};
use crate::random::Seed;
use crate::trace::{Kind, Trace};

/// Index of a host of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// Index of a link of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// Event that a [`Network`] reports.
#[derive(Debug, PartialEq, Eq)]
pub enum Happening {
    /// A packet arrived at a host.
    Arrival(HostId, Packet),
    /// A host's wake-up time has come.
    Wake(HostId),
}

/// Hosts and links. Several links may connect the same hosts in parallel.
#[derive(Debug)]
pub struct Network {
    seed: Seed,
    hosts: Vec<Host>,
    links: Vec<Link>,
    /// Directions of the links: from the first end to the second, and back.
    chains: Vec<[Chain; 2]>,
    events: Events<Event>,
    /// Packets that are on a link. The event queue stores only their keys.
    flying: Slab<Packet>,
    buffers: Buffers,
    arrivals: Vec<(Time, Packet)>,
    trace: Trace,
}

#[derive(Debug, Default)]
struct Host {
    /// Earliest wake-up in the event queue.
    wake: Option<Time>,
}

#[derive(Debug)]
struct Link {
    ends: [End; 2],
    /// Index into the network's chains, which several links may share.
    chains: usize,
}

#[derive(Debug)]
struct End {
    host: HostId,
    /// The host's own address on this link, followed by its public addresses behind a NAT.
    ips: Vec<IpAddr>,
}

#[derive(Debug)]
enum Event {
    Arrival(HostId, usize),
    Wake(HostId),
}

impl Network {
    /// Creates a network without hosts. All its randomness follows from `seed`.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            hosts: Vec::new(),
            links: Vec::new(),
            chains: Vec::new(),
            events: Events::default(),
            flying: Slab::new(),
            buffers: Buffers::default(),
            arrivals: Vec::new(),
            trace: Trace::default(),
        }
    }

    /// Adds a host.
    pub fn add_host(&mut self) -> HostId {
        self.hosts.push(Host::default());
        HostId(self.hosts.len() - 1)
    }

    /// Adds a link between two hosts, each given with its address on the link.
    pub fn add_link(&mut self, first: (HostId, IpAddr), second: (HostId, IpAddr), spec: &LinkSpec) -> LinkId {
        let chains = spec.build(Some(first.1), self.seed, &format!("link/{}", self.links.len()));
        let ips = std::iter::once(first.1).chain(spec.rebindings().iter().filter_map(|nat| nat.ip)).collect();
        let ends = [End { host: first.0, ips }, End { host: second.0, ips: vec![second.1] }];
        self.links.push(Link { ends, chains: self.chains.len() });
        self.chains.push(chains);
        LinkId(self.links.len() - 1)
    }

    /// Attaches two more hosts to `link`, each with its address on it. Their packets share the link's queues.
    pub fn share_link(&mut self, link: LinkId, first: (HostId, IpAddr), second: (HostId, IpAddr)) -> LinkId {
        let ends = [first, second].map(|(host, ip)| End { host, ips: vec![ip] });
        self.links.push(Link { ends, chains: self.links[link.0].chains });
        LinkId(self.links.len() - 1)
    }

    /// Sends a datagram from `host`. An unspecified source address is replaced by that of the link that leads
    /// to the destination. A datagram without a link to its destination is dropped, as by a host without a
    /// route.
    pub fn send(
        &mut self,
        now: Time,
        host: HostId,
        tuple: (SocketAddr, SocketAddr),
        ecn: Option<Ecn>,
        payload: &[u8],
    ) {
        let (mut source, destination) = tuple;
        let Some((link, end)) = self.route(host, source.ip(), destination.ip()) else {
            self.trace.record(now, Kind::Dropped, host.0, payload.len() as u64);
            return;
        };
        self.trace.record(now, Kind::Sent, host.0, payload.len() as u64);
        let link = &mut self.links[link];
        source.set_ip(link.ends[end].ips[0]);
        let to = link.ends[1 - end].host;
        let packet = Packet { source, destination, ecn, payload: self.buffers.copy(payload) };
        self.chains[link.chains][end].push(now, packet, &mut self.buffers, &mut self.arrivals);
        for (at, packet) in self.arrivals.drain(..) {
            let event = Event::Arrival(to, self.flying.insert(packet));
            self.events.add_in_line(2 * link.chains + end, at, event);
        }
    }

    /// Returns the link from `host` to `destination` and the index of `host` among the link's ends.
    fn route(&self, host: HostId, source: IpAddr, destination: IpAddr) -> Option<(usize, usize)> {
        let ends = self.links.iter().enumerate().flat_map(|(link, _)| [(link, 0), (link, 1)]);
        ends.into_iter().find(|&(link, end)| {
            let [here, there] = [&self.links[link].ends[end], &self.links[link].ends[1 - end]];
            here.host == host
                && (source.is_unspecified() || here.ips[0] == source)
                && there.ips.contains(&destination)
        })
    }

    /// Schedules a wake-up of `host` at `at`, unless an earlier one is already scheduled.
    pub fn wake(&mut self, host: HostId, at: Time) {
        let wake = &mut self.hosts[host.0].wake;
        if wake.is_none_or(|earlier| at < earlier) {
            *wake = Some(at);
            self.events.add(at, Event::Wake(host));
        }
    }

    /// Returns the time of the next event.
    pub fn next_time(&mut self) -> Option<Time> {
        self.drop_superseded();
        self.events.next_time()
    }

    /// Removes and returns the next event. The caller returns its packet's buffer with [`Network::recycle`].
    pub fn next_event(&mut self) -> Option<(Time, Happening)> {
        self.drop_superseded();
        let (at, event) = self.events.pop()?;
        Some(match event {
            Event::Arrival(host, key) => {
                let packet = self.flying.remove(key);
                self.trace.record(at, Kind::Arrived, host.0, packet.payload.len() as u64);
                (at, Happening::Arrival(host, packet))
            }
            Event::Wake(host) => {
                self.hosts[host.0].wake = None;
                self.trace.record(at, Kind::Woken, host.0, 0);
                (at, Happening::Wake(host))
            }
        })
    }

    /// Removes superseded wake-ups from the front of the queue. A wake-up is superseded when its host is
    /// scheduled for an earlier time. A superseded wake-up is not an event.
    fn drop_superseded(&mut self) {
        while let Some((at, Event::Wake(host))) = self.events.peek() {
            if self.hosts[host.0].wake == Some(at) {
                return;
            }
            self.events.pop();
        }
    }

    /// Removes the next event if it is another arrival at `host` at the instant `now`, and returns its
    /// packet.
    pub fn next_arrival(&mut self, now: Time, host: HostId) -> Option<Packet> {
        match self.events.peek() {
            Some((at, Event::Arrival(to, _))) if at == now && *to == host => match self.next_event() {
                Some((_, Happening::Arrival(_, packet))) => Some(packet),
                _ => None,
            },
            _ => None,
        }
    }

    /// Schedules a new mapping of the NAT in front of the first host of `link`. If it is the NAT's first
    /// rebinding, the NAT has no mappings for packets that were sent before.
    pub fn rebind(&mut self, link: LinkId, rebinding: Rebinding) {
        let Link { ends, chains } = &mut self.links[link.0];
        let chains = &mut self.chains[*chains];
        ends[0].ips.extend(rebinding.ip);
        if let Some(nat) = chains[0].nat() {
            nat.rebind(rebinding);
            return;
        }
        let [outbound, inbound] = Nat::pair(ends[0].ips[0], &[rebinding]);
        chains[0].set(outbound);
        chains[1].set(inbound);
    }

    /// Sets the outages of `link`: in the direction from its first end to its second, and back.
    pub fn black_out(&mut self, link: LinkId, ways: [Blackout; 2]) {
        for (chain, blackout) in self.chains[self.links[link.0].chains].iter_mut().zip(ways) {
            chain.set(blackout);
        }
    }

    /// Returns the buffer of a processed packet for reuse.
    pub fn recycle(&mut self, packet: Packet) {
        self.buffers.give(packet.payload);
    }

    /// Returns the counters of a link: from its first end to its second, and back.
    pub fn counters(&self, link: LinkId) -> [Counters; 2] {
        let [there, back] = &self.chains[self.links[link.0].chains];
        [there.counters(), back.counters()]
    }

    /// Returns the trace of all events so far. Nodes add the events of their applications to it.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

#[cfg(test)]
mod tests;
