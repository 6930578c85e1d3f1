//! Simulation of connections with several paths that share bottlenecks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::link::Link;
use super::*;
use crate::{Permit, Sibling};

/// Connection with its controller and the link of each of its paths.
pub(super) struct Connection {
    pub(super) congestion: Algorithm,
    pub(super) paths: Vec<usize>,
}

/// One path of a connection.
struct Flow {
    connection: usize,
    link: usize,
    path: Path,
    /// Time at which the flow begins to send.
    start: Time,
    wake: Option<Time>,
    /// Ranges of received orders, oldest first; links do not reorder.
    received: Vec<(u64, u64)>,
    unacked_arrivals: u32,
    /// Arrival time of the last acknowledgment. The delay of acknowledgments varies, but they do not overtake
    /// each other.
    last_ack: Time,
    delivered: u64,
}

/// Queue of a link.
struct Queue {
    link: Link,
    busy_until: Time,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(u64),
    Ack(Vec<(u64, u64)>),
}

struct Run {
    flows: Vec<Flow>,
    queues: Vec<Queue>,
    events: BinaryHeap<Reverse<(Time, u64, usize, Event)>>,
    sequence: u64,
    seed: u64,
    measure_from: Time,
}

/// Runs all connections with unlimited data until `end`. Returns the bytes that crossed the bottlenecks after
/// the first quarter, by connection and path.
pub(super) fn run(links: &[Link], connections: &[Connection], end: Time, seed: u64) -> Vec<Vec<u64>> {
    let mut run = Run {
        flows: Vec::new(),
        queues: links.iter().map(|link| Queue { link: link.clone(), busy_until: Time::ZERO }).collect(),
        events: BinaryHeap::new(),
        sequence: 0,
        seed: seed + 1,
        measure_from: Time::from_nanos(end.as_nanos() / 4),
    };
    for (connection, Connection { congestion, paths }) in connections.iter().enumerate() {
        for &link in paths {
            let mut config = Config { congestion: *congestion, seed, ecn: false, ..Config::default() };
            config.mtu.discovery = false;
            let start = Time::ZERO + Duration::from_micros(run.random(500_000));
            run.flows.push(Flow {
                connection,
                link,
                path: Path::new(&config),
                start,
                wake: Some(start),
                received: Vec::new(),
                unacked_arrivals: 0,
                last_ack: Time::ZERO,
                delivered: 0,
            });
        }
    }
    while run.step(end) {}
    let of = |connection| run.flows.iter().filter(move |flow| flow.connection == connection);
    (0..connections.len()).map(|n| of(n).map(|flow| flow.delivered).collect()).collect()
}

impl Run {
    /// Handles the next event. Returns `false` if it is after `end`.
    fn step(&mut self, end: Time) -> bool {
        let event = self.events.peek().map(|Reverse((time, _, flow, _))| (*time, *flow));
        let timed = |(n, flow): (usize, &Flow)| {
            let deadlines = [flow.path.recovery.poll_timeout(), flow.wake];
            deadlines.into_iter().flatten().min().map(|time| (time, n))
        };
        let timer = self.flows.iter().enumerate().filter_map(timed).min();
        let Some((now, flow)) = event.into_iter().chain(timer).min().filter(|(now, _)| *now <= end) else {
            return false;
        };
        if event == Some((now, flow))
            && let Some(Reverse((.., event))) = self.events.pop()
        {
            self.handle(now, flow, event);
        } else {
            let siblings = self.siblings(flow);
            let Path { recovery, out } = &mut self.flows[flow].path;
            out.clear();
            recovery.on_timeout(now, &siblings, out);
        }
        self.send(now, flow);
        true
    }

    /// Returns the state of the connection's other paths.
    fn siblings(&self, flow: usize) -> Vec<Sibling> {
        let connection = self.flows[flow].connection;
        let others = self.flows.iter().enumerate().filter(|(n, _)| *n != flow);
        others
            .filter(|(_, other)| other.connection == connection)
            .map(|(_, other)| other.path.recovery.sibling())
            .collect()
    }

    fn handle(&mut self, now: Time, flow: usize, event: Event) {
        match event {
            Event::Arrival(order) => self.arrive(now, flow, order),
            Event::Ack(ranges) => {
                let siblings = self.siblings(flow);
                let Path { recovery, out } = &mut self.flows[flow].path;
                let info = AckInfo {
                    delay: Duration::ZERO,
                    ecn: None,
                    measures: Measures::Largest,
                    ..AckInfo::default()
                };
                let ranges = ranges.into_iter().rev().map(|(low, high)| low..=high);
                out.clear();
                recovery.on_ack(now, DATA, ranges, info, &siblings, out).unwrap();
            }
        }
    }

    /// Handles an arriving packet. Every second packet causes an acknowledgment, and so does each packet that
    /// follows a gap.
    fn arrive(&mut self, now: Time, flow: usize, order: u64) {
        // The delay of acknowledgments varies, so that flows do not synchronize with the queue.
        let jitter = Duration::from_micros(self.random(2_000));
        let receiver = &mut self.flows[flow];
        receiver.unacked_arrivals += 1;
        match receiver.received.last_mut() {
            Some((_, high)) if *high + 1 == order => *high = order,
            _ => {
                receiver.received.push((order, order));
                receiver.unacked_arrivals = 2;
            }
        }
        if receiver.unacked_arrivals >= 2 {
            receiver.unacked_arrivals = 0;
            let excess = receiver.received.len().saturating_sub(16);
            receiver.received.drain(..excess);
            receiver.last_ack = receiver.last_ack.max(now + jitter);
            let (time, ranges) = (receiver.last_ack, receiver.received.clone());
            self.at(time, flow, Event::Ack(ranges));
        }
    }

    fn at(&mut self, time: Time, flow: usize, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, flow, event)));
    }

    fn send(&mut self, now: Time, flow: usize) {
        if now < self.flows[flow].start {
            return;
        }
        self.flows[flow].wake = None;
        for _ in 0..self.flows[flow].path.recovery.probes(DATA) {
            self.transmit(now, flow);
        }
        loop {
            match self.flows[flow].path.recovery.permit(now) {
                Permit::Bytes(_) => self.transmit(now, flow),
                Permit::Wait(until) => {
                    self.flows[flow].wake = Some(until);
                    return;
                }
                Permit::Window => return,
            }
        }
    }

    fn transmit(&mut self, now: Time, flow: usize) {
        let sender = &mut self.flows[flow];
        let order = sender.path.send(now);
        let queue = &mut self.queues[sender.link];
        let link = &queue.link;
        let queued = u64::try_from((queue.busy_until - now).as_nanos()).unwrap() * link.rate / 1_000_000_000;
        if queued + 1200 > link.queue {
            return;
        }
        queue.busy_until = queue.busy_until.max(now) + Duration::from_nanos(1200 * 1_000_000_000 / link.rate);
        if now >= self.measure_from {
            sender.delivered += 1200;
        }
        let arrival = queue.busy_until + link.rtt;
        self.at(arrival, flow, Event::Arrival(order));
    }

    /// Returns a number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % bound
    }
}
