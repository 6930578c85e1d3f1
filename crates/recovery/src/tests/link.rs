//! Simulation of a bottleneck with a queue, between a sender and a receiver.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::*;
use crate::{Controller, Permit, State};

/// Bottleneck followed by a delay. Acknowledgments are neither lost nor delayed.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Rate in bytes per second.
    pub(super) rate: u64,
    /// Round-trip time with an empty queue.
    pub(super) rtt: Duration,
    /// Capacity of the queue in bytes.
    pub(super) queue: u64,
    /// Number of packets of which one is lost at random; 0 for no losses.
    pub(super) loss: u64,
    /// Delay of every twentieth packet after the first hundred.
    pub(super) reorder: Duration,
    /// Size above which packets are dropped.
    pub(super) mtu: u16,
    /// Queue length in bytes above which packets are marked with CE.
    pub(super) mark: u64,
}

impl Link {
    pub(super) fn new(rate: u64, rtt: Duration, queue: u64) -> Self {
        Self { rate, rtt, queue, loss: 0, reorder: Duration::ZERO, mtu: u16::MAX, mark: u64::MAX }
    }

    pub(super) fn bdp(&self) -> u64 {
        self.rate * u64::try_from(self.rtt.as_millis()).unwrap() / 1000
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival { order: u64, ce: bool, ect: bool },
    Ack { ranges: Vec<(u64, u64)>, ecn: (u64, u64) },
}

/// Result of a transfer.
pub(super) struct Report {
    /// Share of the link's capacity used in the second half of the transfer.
    pub(super) utilisation: f64,
    /// Mean time that packets waited in the queue in the second half of the transfer.
    pub(super) queueing: Duration,
    pub(super) path: Path,
    /// Number of packets acknowledged or declared lost. A packet acknowledged after its loss counts once.
    pub(super) resolved: u64,
    /// Phases of the controller, in order.
    pub(super) states: Vec<State>,
}

struct Run {
    link: Link,
    path: Path,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    /// Time at which the pacer allows the next packet.
    wake: Option<Time>,
    /// Time at which the queue will be empty.
    busy_until: Time,
    received: BTreeSet<u64>,
    unacked_arrivals: u32,
    counts: EcnCounts,
    seed: u64,
    sent: u64,
    half: Time,
    delivered: u64,
    waited: Duration,
    waiters: u32,
    resolved: u64,
}

/// Sends as much as `config` allows over `link` until `end`, and reports the result.
pub(super) fn run(link: &Link, config: &Config, end: Time) -> Report {
    let half = Time::from_nanos(end.as_nanos() / 2);
    let mut run = Run {
        link: link.clone(),
        path: Path::new(config),
        events: BinaryHeap::new(),
        sequence: 0,
        wake: None,
        busy_until: Time::ZERO,
        received: BTreeSet::new(),
        unacked_arrivals: 0,
        counts: EcnCounts::default(),
        seed: 1,
        sent: 0,
        half,
        delivered: 0,
        waited: Duration::ZERO,
        waiters: 0,
        resolved: 0,
    };
    let mut states = Vec::new();
    run.send(Time::ZERO);
    loop {
        let next = run.events.peek().map(|Reverse((time, ..))| *time);
        let timer = run.path.recovery.poll_timeout();
        let Some(now) = [next, timer, run.wake].into_iter().flatten().min().filter(|&now| now <= end) else {
            break;
        };
        if timer == Some(now) {
            run.path.timeout(now);
            run.resolved += run.path.out.lost.len() as u64;
        } else if next == Some(now)
            && let Some(Reverse((now, _, event))) = run.events.pop()
        {
            run.handle(now, event);
        }
        run.send(now);
        let state = run.path.recovery.congestion().state();
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    let capacity = link.rate as f64 * (end - half).as_secs_f64();
    Report {
        utilisation: run.delivered as f64 / capacity,
        queueing: run.waited / run.waiters.max(1),
        path: run.path,
        resolved: run.resolved,
        states,
    }
}

impl Run {
    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrival { order, ce, ect } => {
                self.received.insert(order);
                self.counts.ce += u64::from(ce);
                self.counts.ect0 += u64::from(ect && !ce);
                self.unacked_arrivals += 1;
                if self.unacked_arrivals >= 2 || order != *self.received.last().unwrap() {
                    self.unacked_arrivals = 0;
                    let ecn = (self.counts.ect0, self.counts.ce);
                    let ranges = self.ranges();
                    self.at(now, Event::Ack { ranges, ecn });
                }
            }
            Event::Ack { ranges, ecn } => {
                let ranges: Vec<_> = ranges.into_iter().map(|(low, high)| low..=high).collect();
                let counts = EcnCounts { ect0: ecn.0, ect1: 0, ce: ecn.1 };
                self.path.try_ack(now, DATA, &ranges, Some(counts)).unwrap();
                let out = &self.path.out;
                self.resolved += (out.lost.len() + out.acked.len() - out.spurious.len()) as u64;
            }
        }
    }

    /// Returns the newest ranges of received orders, descending.
    fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &order in self.received.iter().rev() {
            match ranges.last_mut() {
                Some((low, high)) if *high - *low > 500 => break,
                Some((low, _)) if *low == order + 1 => *low = order,
                _ => ranges.push((order, order)),
            }
            if ranges.len() == 16 {
                break;
            }
        }
        ranges
    }

    fn send(&mut self, now: Time) {
        self.wake = None;
        let recovery = &mut self.path.recovery;
        for _ in 0..recovery.probes(DATA) {
            self.transmit(now, None);
        }
        if let Some(size) = self.path.recovery.mtu_probe(now) {
            self.transmit(now, Some(size));
        }
        loop {
            match self.path.recovery.permit(now) {
                Permit::Bytes(bytes) => {
                    assert!(bytes >= u64::from(self.path.recovery.mtu()));
                    self.transmit(now, None);
                }
                Permit::Wait(until) => {
                    assert!(until > now);
                    self.wake = Some(until);
                    return;
                }
                Permit::Window => return,
            }
        }
    }

    fn transmit(&mut self, now: Time, probe: Option<u16>) {
        let recovery = &mut self.path.recovery;
        let (size, ect) = (probe.unwrap_or(recovery.mtu()), recovery.ecn_mark());
        let order = recovery.next_order(DATA);
        let mtu_probe = probe.is_some();
        let sent =
            Sent { time: now, size, ack_eliciting: true, in_flight: true, ect, mtu_probe, owed: order };
        recovery.on_sent(DATA, order, sent);
        self.sent += 1;
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unlucky = self.link.loss > 0 && (self.seed >> 33).is_multiple_of(self.link.loss);
        let wait = self.busy_until - now;
        let queued = u64::try_from(wait.as_nanos()).unwrap() * self.link.rate / 1_000_000_000;
        if unlucky || queued + u64::from(size) > self.link.queue || size > self.link.mtu {
            return;
        }
        let service = Duration::from_nanos(u64::from(size) * 1_000_000_000 / self.link.rate);
        self.busy_until = self.busy_until.max(now) + service;
        if now >= self.half {
            self.delivered += u64::from(size);
            self.waited += wait;
            self.waiters += 1;
        }
        let late = order > 100 && order.is_multiple_of(20);
        let held = if late { self.link.reorder } else { Duration::ZERO };
        let ce = ect && queued > self.link.mark;
        self.at(self.busy_until + self.link.rtt + held, Event::Arrival { order, ce, ect });
    }
}
