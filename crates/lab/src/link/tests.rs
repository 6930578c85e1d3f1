use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_wire::{Ecn, Time};

use super::*;

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn packet(len: usize) -> Packet {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    Packet {
        source: address("10.0.0.1:1000"),
        destination: address("10.0.0.2:443"),
        ecn: None,
        payload: vec![0; len],
    }
}

/// Sends the packets of `sent` at their times through `chain`. Returns their arrivals.
fn through(chain: &mut Chain, sent: impl IntoIterator<Item = (Time, Packet)>) -> Vec<(Time, Packet)> {
    let mut arrivals = Vec::new();
    for (at, packet) in sent {
        chain.push(at, packet, &mut Buffers::default(), &mut arrivals);
    }
    arrivals
}

fn chain(elements: impl IntoIterator<Item = Stage>) -> Chain {
    let mut chain = Chain::default();
    elements.into_iter().for_each(|element| chain.set(element));
    chain.seed(Seed(1), "test");
    chain
}

#[test]
fn elements_stand_in_the_order_of_the_registry_and_replace_their_like() {
    let queue = Queue::new(Rate::constant(1), Limit::Packets(1));
    let chain =
        chain([Delay(Duration::ZERO).into(), queue.into(), Mtu(1).into(), Delay(Duration::MAX).into()]);
    assert!(matches!(chain.stages[..], [Stage::Mtu(_), Stage::Queue(_), Stage::Delay(Delay(Duration::MAX))]));
}

#[test]
fn a_full_queue_drops_the_tail_and_marks_before() {
    let queue =
        Queue::new(Rate::constant(8_000), Limit::Packets(3)).overhead(0).mark_above(Limit::Packets(1));
    let mut chain = chain([queue.into()]);
    let mut ect = packet(1);
    ect.ecn = Some(Ecn::Ect0);
    let sent = (0..6).map(|_| (ms(0), Packet { payload: vec![0], ..ect }));
    let arrivals = through(&mut chain, sent);
    // One packet is in transmission, three wait, and two are dropped. The second and the third waiting packet
    // find another one in the queue.
    assert_eq!(arrivals.iter().map(|arrival| arrival.0).collect::<Vec<_>>(), [1, 2, 3, 4].map(ms));
    let marks: Vec<_> = arrivals.iter().map(|arrival| arrival.1.ecn == Some(Ecn::Ce)).collect();
    assert_eq!(marks, [false, false, true, true]);
    assert_eq!(chain.counters().lost(Lost::Overflow), 2);
}

#[test]
fn mtu_blackout_and_loss_count_what_they_drop() {
    let blackout = Blackout::new([ms(5)..ms(7)]).every(Duration::from_millis(10));
    let mut chain = chain([Mtu(100).into(), blackout.into(), Loss::during(1.0, ms(1)..ms(2)).into()]);
    let sent = (0..20).map(|at| (ms(at), packet(if at == 0 { 101 } else { 100 })));
    let arrivals: Vec<_> =
        through(&mut chain, sent).iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(arrivals, [2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18, 19]);
    let counters = chain.counters();
    let lost = [Lost::TooLarge, Lost::Blackout, Lost::Chance].map(|why| counters.lost(why));
    assert_eq!((lost, counters.lost_in_all(), counters.delivered), ([1, 4, 1], 6, 14));
}

#[test]
fn damage_flips_bits_and_duplicates_are_equal() {
    let mut chain = chain([Corrupt::new(1.0).into(), Duplicate::new(1.0).into()]);
    let arrivals = through(&mut chain, [(ms(0), packet(50))]);
    assert_eq!(arrivals.len(), 2);
    assert_eq!(arrivals[0], arrivals[1]);
    let flipped: u32 = arrivals[0].1.payload.iter().map(|byte| byte.count_ones()).sum();
    assert!((1..=4).contains(&flipped), "{flipped} bits flipped");
}

#[test]
fn reordering_delays_some_packets_within_its_bound() {
    let mut chain = chain([Reorder::new(0.5, Duration::from_millis(10)).into()]);
    let arrivals = through(&mut chain, (0..1000).map(|_| (ms(0), packet(1))));
    let late = arrivals.iter().filter(|(at, _)| *at > ms(0)).count();
    assert!((400..600).contains(&late), "{late} of 1000 late");
    assert!(arrivals.iter().all(|(at, _)| *at <= ms(10)));
}

#[test]
fn a_nat_translates_both_ways_and_forgets_old_mappings() {
    let inside: IpAddr = "10.0.0.1".parse().unwrap();
    let other: IpAddr = "192.0.2.1".parse().unwrap();
    let spec = LinkSpec::unlimited(Duration::ZERO).rebind(ms(10), None, 100).rebind(ms(20), Some(other), 200);
    let [mut there, mut back] = spec.build(Some(inside), Seed(1), "nat");
    let seen: Vec<String> = through(&mut there, [0, 10, 20].map(|at| (ms(at), packet(1))))
        .iter()
        .map(|(_, packet)| packet.source.to_string())
        .collect();
    assert_eq!(seen, ["10.0.0.1:1000", "10.0.0.1:1100", "192.0.2.1:1200"]);
    let answers = seen.iter().map(|to| (ms(20), Packet { destination: to.parse().unwrap(), ..packet(1) }));
    let arrivals = through(&mut back, answers);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].1.destination, packet(1).source);
    assert_eq!(back.counters().lost(Lost::Unmapped), 2);
}

#[test]
fn text_forms_parse() {
    let spec: LinkSpec = "12mbit/20ms/1.5%".parse().unwrap();
    let [mut there, _] = spec.loss(0.0).build(None, Seed(1), "l");
    // (1472 + 28) B at 12 Mbit/s take 1 ms, and half of the round trip is 10 ms.
    assert_eq!(through(&mut there, [(ms(0), packet(1472))])[0].0, ms(11));
    for good in ["unlimited/0ms", "0.5gbit/1s", "64kbit/300us/100%", "9600bit/1s/0%"] {
        assert!(good.parse::<LinkSpec>().is_ok(), "{good}");
    }
}

#[test]
fn text_faults_are_named() {
    let cases = [
        ("50mbit", "two or three parts"),
        ("1mbit/1ms/1%/x", "two or three parts"),
        ("0mbit/1ms", "`0mbit` is no rate"),
        ("-1mbit/1ms", "`-1mbit` is no rate"),
        ("50/1ms", "`50` is no rate"),
        ("1mbit/NaNms", "`NaNms` is no round-trip time"),
        ("1mbit/5", "`5` is no round-trip time"),
        ("1mbit/5ms/101%", "`101%` is no loss"),
        ("1mbit/5ms/0.1", "`0.1` is no loss"),
    ];
    for (text, fault) in cases {
        let error = text.parse::<LinkSpec>().unwrap_err().to_string();
        assert!(error.contains(fault) && error.contains("50mbit/20ms/1%"), "{error}");
    }
}

#[test]
fn jitter_delays_packets_and_keeps_their_order() {
    let mut chain = chain([Jitter::new(Duration::from_millis(10)).into()]);
    let sent = (0..1000).map(|at| (ms(at), packet(1)));
    let arrivals: Vec<Time> = through(&mut chain, sent).into_iter().map(|(at, _)| at).collect();
    assert!(arrivals.is_sorted());
    let late: Vec<f64> =
        arrivals.iter().zip(0..).map(|(at, sent)| (*at - ms(sent)).as_secs_f64() * 1e3).collect();
    assert!(late.iter().all(|late| (0.0..=10.0).contains(late)));
    assert!(late.iter().any(|late| *late > 9.0) && late.iter().any(|late| *late < 4.0));
}

#[test]
fn a_delay_that_falls_lets_nothing_overtake() {
    let delay = |at, delay| (ms(at), Duration::from_millis(delay));
    let mut chain = chain([VaryingDelay::steps([delay(0, 20), delay(10, 5), delay(30, 8)]).into()]);
    let arrivals = through(&mut chain, [0, 9, 10, 20, 30].map(|at| (ms(at), packet(1))));
    assert_eq!(arrivals.iter().map(|arrival| arrival.0).collect::<Vec<_>>(), [20, 29, 29, 29, 38].map(ms));
}
