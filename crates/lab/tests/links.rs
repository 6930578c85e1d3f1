//! Comparison of the network model with closed forms.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_lab::link::{BurstLoss, Counters, Delay, Limit, LinkSpec, Lost, Queue, Rate};
use anabranch_lab::network::{Happening, HostId, LinkId, Network};
use anabranch_lab::random::Seed;
use anabranch_wire::Time;

/// Bytes of headers of each datagram.
const HEADERS: usize = 28;

/// Network of two hosts and one link.
struct Line {
    network: Network,
    link: LinkId,
}

impl Line {
    fn new(spec: &LinkSpec, seed: u64) -> Self {
        let mut network = Network::new(Seed(seed));
        let [first, second] = [network.add_host(), network.add_host()];
        let link = network.add_link((first, ip(1)), (second, ip(2)), spec);
        Self { network, link }
    }

    /// Sends `len` bytes, including headers, from the first host.
    fn send(&mut self, at: Time, len: usize) {
        let tuple = (SocketAddr::new(ip(1), 1), SocketAddr::new(ip(2), 2));
        self.network.send(at, HostId(0), tuple, None, &vec![0; len - HEADERS]);
    }

    fn arrivals(&mut self) -> Vec<Time> {
        let arrivals = std::iter::from_fn(|| self.network.next_event());
        arrivals.filter(|(_, what)| matches!(what, Happening::Arrival(..))).map(|(at, _)| at).collect()
    }

    fn counters(&self) -> Counters {
        self.network.counters(self.link)[0]
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn us(micros: u64) -> Time {
    Time::from_micros(micros)
}

#[test]
fn a_packet_takes_serialization_plus_propagation() {
    for (rate, rtt_ms, len) in [(1_000_000, 0, 100), (50_000_000, 30, 1500), (2_500_000, 100, 1280)] {
        let mut line = Line::new(&LinkSpec::new(rate, Duration::from_millis(rtt_ms)), 1);
        line.send(us(3), len);
        let serialization = len as u64 * 8 * 1_000_000_000 / rate;
        let expected = us(3) + Duration::from_nanos(serialization) + Duration::from_millis(rtt_ms) / 2;
        assert_eq!(line.arrivals(), [expected]);
    }
}

#[test]
fn a_train_leaves_at_the_rate_of_the_link() {
    let mut line = Line::new(&LinkSpec::new(12_000_000, Duration::from_millis(40)), 1);
    (0..20).for_each(|_| line.send(Time::ZERO, 1500));
    // At 12 Mbit/s each packet of 1500 B takes 1 ms; half of the round trip is 20 ms.
    assert_eq!(line.arrivals(), (1..=20).map(|k| us(20_000 + k * 1_000)).collect::<Vec<_>>());
}

#[test]
fn an_overloaded_queue_drops_the_surplus_and_stays_full() {
    for limit in [Limit::Packets(10), Limit::Bytes(15_000)] {
        let spec = LinkSpec::default().queue(Rate::constant(12_000_000), limit);
        let mut line = Line::new(&spec, 1);
        // A packet of 1500 B is sent every 600 µs, and the link needs 1000 µs for each. So 3/5 of them pass.
        let sent = 10_000;
        (0..sent).for_each(|k| line.send(us(k * 600), 1500));
        let arrivals = line.arrivals();
        // When the last packet is sent, 6000 have begun to leave, one per millisecond, and ten wait.
        assert_eq!(arrivals.len() as u64, sent * 600 / 1000 + 10, "{limit:?}");
        assert!(arrivals.windows(2).all(|pair| pair[1] - pair[0] == Duration::from_millis(1)));
        assert_eq!(line.counters().lost(Lost::Overflow), sent - arrivals.len() as u64);
    }
}

#[test]
fn waiting_times_follow_pollaczek_and_khinchine() {
    let (service_ns, load) = (1_000_000.0, 0.8);
    let spec = LinkSpec::default().queue(Rate::constant(12_000_000), Limit::Packets(usize::MAX));
    let mut line = Line::new(&spec, 1);
    let mut rng = Seed(5).rng("poisson");
    let (mut clock, mut sent) = (0.0, Vec::new());
    for _ in 0..200_000 {
        clock += -(1.0 - rng.unit()).ln() * service_ns / load;
        sent.push(Time::from_nanos(clock as u64));
        line.send(Time::from_nanos(clock as u64), 1500);
    }
    let arrivals = line.arrivals();
    let total: f64 =
        arrivals.iter().zip(&sent).map(|(arrived, sent)| (*arrived - *sent).as_nanos() as f64).sum();
    let waiting = total / sent.len() as f64 - service_ns;
    // M/D/1 queue: the mean waiting time is ρ/(2(1-ρ)) service times, here 2 ms.
    let expected = service_ns * load / (2.0 * (1.0 - load));
    assert!((waiting / expected - 1.0).abs() < 0.03, "{waiting} instead of {expected} ns");
}

#[test]
fn random_loss_stays_within_binomial_bounds() {
    for (seed, probability) in [(1, 0.001), (2, 0.01), (3, 0.3), (4, 0.975)] {
        let mut line = Line::new(&LinkSpec::unlimited(Duration::ZERO).loss(probability), seed);
        let sent = 100_000.0;
        (0..sent as u64).for_each(|k| line.send(us(k), 100));
        let lost = line.counters().lost(Lost::Chance) as f64;
        let deviation = (sent * probability * (1.0 - probability)).sqrt();
        assert!(
            (lost - sent * probability).abs() < 4.0 * deviation,
            "{lost} lost with probability {probability}"
        );
        assert!(line.arrivals().len() as f64 == sent - lost);
    }
}

#[test]
fn burst_loss_has_its_stationary_share_and_burst_length() {
    let (to_bad, to_good) = (0.005, 0.1);
    let burst = BurstLoss::new(to_bad, to_good, 0.0, 1.0);
    let share = burst.stationary_loss();
    let mut line = Line::new(&LinkSpec::default().both(burst), 3);
    let sent = 400_000;
    (0..sent).for_each(|k| line.send(us(k), 100));
    let arrivals = line.arrivals();
    let lost = sent - arrivals.len() as u64;
    // The variance of the mean of a two-state chain with correlation c is (1 + c) / (1 - c) times that of
    // independent draws.
    let correlation = 1.0 - to_bad - to_good;
    let variance = sent as f64 * share * (1.0 - share) * (1.0 + correlation) / (1.0 - correlation);
    assert!((lost as f64 - sent as f64 * share).abs() < 4.0 * variance.sqrt(), "{lost} lost, share {share}");
    let bursts = arrivals.windows(2).filter(|pair| pair[1] - pair[0] > Duration::from_micros(1)).count();
    let length = lost as f64 / bursts as f64;
    assert!((length * to_good - 1.0).abs() < 0.1, "bursts of {length} packets");
}

#[test]
fn one_more_element_leaves_the_draws_of_others_alone() {
    let lost_with = |spec: LinkSpec| {
        let mut line = Line::new(&spec.loss(0.5), 9);
        (0..64).for_each(|k| line.send(us(k * 1_000), 100));
        line.arrivals().iter().map(|at| at.as_nanos() / 1_000_000).collect::<Vec<_>>()
    };
    let plain = lost_with(LinkSpec::default());
    let slow = LinkSpec::default().both(Queue::new(Rate::constant(1_000_000_000), Limit::Packets(1)));
    assert_eq!(plain, lost_with(slow.corrupt(0.5).both(Delay(Duration::from_nanos(1)))));
    assert!((20..44).contains(&plain.len()));
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        let spec = LinkSpec::new(10_000_000, Duration::from_millis(20)).loss(0.1);
        let spec = spec.reorder(0.2, Duration::from_millis(5)).duplicate(0.1).corrupt(0.1);
        let mut line = Line::new(&spec, seed);
        (0..500).for_each(|k| line.send(us(k * 100), 100));
        line.arrivals();
        line.network.trace().hash()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
