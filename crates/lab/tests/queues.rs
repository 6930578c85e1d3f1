//! Comparison of queues, rate traces and random losses with closed forms that the model's own code does not
//! use.

use core::time::Duration;
use std::net::SocketAddr;

use anabranch_lab::link::{
    BurstLoss, Chain, Delay, Duplicate, Limit, LinkSpec, Loss, Lost, Queue, Rate, Reorder,
};
use anabranch_lab::packet::{Buffers, Packet};
use anabranch_lab::random::{Rng, Seed};
use anabranch_wire::Time;

/// Sends each packet of `sent` and returns the arrivals; `None` for a dropped packet.
fn through(link: &mut Chain, sent: &[(u64, u32)]) -> Vec<Option<u64>> {
    let mut arrived = Vec::new();
    let send = |&(at, size): &(u64, u32)| {
        link.push(Time::from_nanos(at), packet(size), &mut Buffers::default(), &mut arrived);
        arrived.pop().map(|(at, _)| at.as_nanos())
    };
    sent.iter().map(send).collect()
}

fn packet(size: u32) -> Packet {
    let address = SocketAddr::from(([10, 0, 0, 1], 1));
    Packet { source: address, destination: address, ecn: None, payload: vec![0; size as usize] }
}

/// Creates one direction of a link without header overhead.
fn queue(rate: Rate, limit: Limit) -> Chain {
    built(&LinkSpec::default().both(Queue::new(rate, limit).overhead(0)), 1)
}

fn built(spec: &LinkSpec, seed: u64) -> Chain {
    let [there, _] = spec.build(None, Seed(seed), "line");
    there
}

/// Returns true if `count` successes in `trials` draws with `probability` are within 4.5 standard deviations
/// of the mean.
fn binomial(count: usize, trials: usize, probability: f64) -> bool {
    let (count, trials) = (count as f64, trials as f64);
    let deviation = (trials * probability * (1.0 - probability)).sqrt();
    (count - trials * probability).abs() <= 4.5 * deviation
}

#[test]
fn a_burst_fills_transmitter_and_queue_and_packet_k_leaves_after_k_services() {
    // At 8 Mbit/s 1000 B take 1 ms.
    for capacity in [0, 1, 7, 40] {
        let mut link = queue(Rate::constant(8_000_000), Limit::Packets(capacity));
        let arrivals = through(&mut link, &[(5, 1000); 30]);
        for (index, arrival) in arrivals.into_iter().enumerate() {
            let leaves = (index <= capacity).then(|| 5 + (index as u64 + 1) * 1_000_000);
            assert_eq!(arrival, leaves, "packet {index}, queue of {capacity}");
        }
    }
}

#[test]
fn a_second_burst_finds_the_places_of_those_that_began_in_between() {
    let capacity = 10;
    // The second burst is sent after `after` service times, plus or minus a nanosecond. Until then the
    // transmitter has taken one packet from the queue at each end of a service, including an end at this very
    // instant.
    for after in 1..=12_u64 {
        for (offset, ended) in [(-1, after - 1), (0, after), (1, after)] {
            let mut link = queue(Rate::constant(8_000_000), Limit::Packets(capacity));
            let at = (after * 1_000_000).saturating_add_signed(offset);
            let sent = [[(0, 1000); 30], [(at, 1000); 30]].concat();
            let second = through(&mut link, &sent)[30..].iter().flatten().count() as u64;
            // When all eleven packets have left, the transmitter is idle and accepts one more.
            assert_eq!(second, ended.min(11), "{after} services, {offset} ns");
        }
    }
}

#[test]
fn a_queue_counted_in_bytes_takes_what_still_fits() {
    // The first packet is in transmission, and 900 of 1000 bytes wait. Another 200 bytes do not fit. Another
    // 100 bytes fit, and then 1 byte does not.
    let mut link = queue(Rate::constant(8_000_000), Limit::Bytes(1_000));
    let sizes = [500, 600, 300, 200, 100, 1];
    let arrivals = through(&mut link, &sizes.map(|size| (0, size)));
    // Each byte takes one microsecond.
    assert_eq!(
        arrivals,
        [Some(500), Some(1_100), Some(1_400), None, Some(1_500), None].map(|us| us.map(|us| us * 1_000))
    );
    // At 500 µs the transmission of the 600 bytes begins. 400 bytes then wait, so 600 fit. A packet larger
    // than the queue never waits.
    let later = through(&mut link, &[(500_000, 601), (500_000, 600), (2_099_999, 1_500), (2_100_000, 1_500)]);
    assert_eq!(later, [None, Some(2_100_000), None, Some(3_600_000)]);
}

/// Returns the time at which each accepted packet has left, computed from the definition of a queue: an
/// accepted packet waits until its transmission begins.
fn by_definition(rate: u64, limit: Limit, sent: &[(u64, u32)]) -> Vec<Option<u64>> {
    let mut accepted: Vec<(u64, u64, u64)> = Vec::new();
    let mut leave = Vec::new();
    for &(at, size) in sent {
        let size = u64::from(size);
        let waiting = accepted.iter().filter(|(begins, ..)| *begins > at);
        let (packets, bytes) =
            waiting.fold((0, 0), |(packets, bytes), (_, size, _)| (packets + 1, bytes + size));
        let begins = accepted.last().map_or(at, |(.., ends)| at.max(*ends));
        let fits = match limit {
            Limit::Packets(limit) => packets < limit,
            Limit::Bytes(limit) => bytes + size <= limit,
        };
        let exact = (size * 8) as f64 * 1e9 / rate as f64;
        let ends = begins + exact.round() as u64;
        leave.push((fits || begins == at).then_some(ends));
        if fits || begins == at {
            accepted.push((begins, size, ends));
        }
    }
    leave
}

#[test]
fn random_trains_leave_as_the_definition_says() {
    let mut rng = Seed(4).rng("trains");
    let mut dropped = 0;
    for _ in 0..200 {
        // Rates are prime numbers, so that no service ends exactly halfway between two nanoseconds.
        let rate = rng.pick(&[1_000_003, 9_999_991, 99_999_989]);
        let limit = rng.pick(&[
            Limit::Packets(0),
            Limit::Packets(3),
            Limit::Packets(50),
            Limit::Bytes(900),
            Limit::Bytes(20_000),
        ]);
        let pause = rng.between(1, 2_000_000_000_000 / rate * 4);
        let mut at = 0;
        let mut next = || {
            at += if rng.chance(0.5) { 0 } else { rng.below(pause) };
            (at, rng.between(1, 1500) as u32)
        };
        let sent: Vec<_> = (0..300).map(|_| next()).collect();
        let arrivals = through(&mut queue(Rate::constant(rate), limit), &sent);
        assert_eq!(arrivals, by_definition(rate, limit, &sent), "{rate} bit/s, {limit:?}");
        dropped += arrivals.iter().filter(|arrival| arrival.is_none()).count();
    }
    assert!((5_000..55_000).contains(&dropped), "{dropped} of 60000 dropped");
}

/// Returns 10⁹ times the number of bits that a trace carries between `from` and `until`.
fn integral(steps: &[(u64, u64)], from: u64, until: u64) -> u128 {
    let ends = steps.iter().skip(1).map(|step| step.0).chain([u64::MAX]);
    let overlap = |start: u64, end: u64| end.min(until).saturating_sub(start.max(from));
    steps
        .iter()
        .zip(ends)
        .map(|(&(start, rate), end)| u128::from(rate) * u128::from(overlap(start, end)))
        .sum()
}

#[test]
fn a_rate_trace_carries_its_integral() {
    let mut rng = Seed(6).rng("traces");
    for _ in 0..500 {
        let mut steps = vec![(0, rng.between(1, 200_000_000))];
        for _ in 0..rng.between(1, 40) {
            let at = steps[steps.len() - 1].0 + rng.between(1, 5_000_000);
            // Rates may be zero, except for the last rate.
            steps.push((at, if rng.chance(0.2) { 0 } else { rng.between(1, 200_000_000) }));
        }
        steps.push((steps[steps.len() - 1].0 + 1, 20_000_000));
        let trace = Rate::steps(steps.iter().map(|&(at, rate)| (Time::from_nanos(at), rate)));
        for _ in 0..20 {
            let (start, bytes) = (rng.below(100_000_000), rng.between(1, 100_000));
            let finish = trace.finish(Time::from_nanos(start), bytes).as_nanos();
            let wanted = u128::from(bytes) * 8 * 1_000_000_000;
            // The result is exact to a nanosecond.
            assert!(integral(&steps, start, finish - 1) < wanted, "{bytes} B from {start}, {steps:?}");
            assert!(integral(&steps, start, finish + 1) >= wanted, "{bytes} B from {start}, {steps:?}");
        }
    }
}

#[test]
fn a_busy_link_carries_what_its_trace_allows_to_half_a_nanosecond_a_packet() {
    let steps = [(0, 10_000_000), (700_000_001, 1_000_003), (900_000_000, 0), (1_300_000_000, 33_333_333)];
    let trace = Rate::steps(steps.map(|(at, rate)| (Time::from_nanos(at), rate)));
    let sent = vec![(0, 1_447); 5_000];
    let arrivals = through(&mut queue(trace, Limit::Packets(5_000)), &sent);
    for (index, arrival) in arrivals.iter().enumerate() {
        let packets = index as u128 + 1;
        let carried = integral(&steps, 0, arrival.unwrap());
        let wanted = packets * 1_447 * 8 * 1_000_000_000;
        // Rounding may add up to half a nanosecond at the highest rate for each packet so far.
        assert!(carried.abs_diff(wanted) <= packets * 33_333_333 / 2 + 33_333_333, "packet {index}");
    }
}

#[test]
fn delay_is_added_after_serialization_and_keeps_the_order() {
    for delay in [0, 1, 333, 15_000_000, 2_000_000_000] {
        let spec = |delay| {
            LinkSpec::default()
                .both(Queue::new(Rate::constant(7_654_321), Limit::Packets(9)))
                .both(Delay(delay))
        };
        let sent: Vec<_> = (0..50).map(|k| (k * 900_000, 1_200)).collect();
        let near = through(&mut built(&spec(Duration::ZERO), 1), &sent);
        let far = through(&mut built(&spec(Duration::from_nanos(delay)), 1), &sent);
        assert_eq!(far, near.iter().map(|at| at.map(|at| at + delay)).collect::<Vec<_>>());
        assert!(far.iter().flatten().is_sorted());
        assert!(far.iter().flatten().count() < 50, "the queue is to drop some");
    }
}

/// Sends `count` packets, one per microsecond. Returns true for each packet that was lost.
fn lost(spec: &LinkSpec, seed: u64, count: u64) -> Vec<bool> {
    let sent: Vec<_> = (0..count).map(|k| (k * 1_000, 1)).collect();
    through(&mut built(spec, seed), &sent).iter().map(Option::is_none).collect()
}

fn count(of: &[bool]) -> usize {
    of.iter().filter(|lost| **lost).count()
}

#[test]
fn losses_are_independent_of_each_other_and_of_other_links() {
    let (probability, packets) = (0.05, 200_000);
    let one = lost(&LinkSpec::default().loss(probability), 1, packets);
    let other = lost(&LinkSpec::default().loss(probability), 2, packets);
    let both = one.iter().zip(&other).filter(|(one, other)| **one && **other).count();
    assert!(binomial(both, one.len(), probability * probability), "{both} lost on both");
    // A packet that follows a lost packet at any of these distances is lost with the same probability as any
    // other.
    for lag in [1, 2, 3, 64] {
        let after: Vec<_> =
            one.iter().zip(&one[lag..]).filter(|(before, _)| **before).map(|(_, after)| *after).collect();
        assert!(
            binomial(count(&after), after.len(), probability),
            "{} of {} at {lag}",
            count(&after),
            after.len()
        );
    }
    // A run of losses ends after each packet with probability 1 - p.
    let runs = one.windows(2).filter(|pair| pair[0] && !pair[1]).count();
    assert!(binomial(runs, count(&one), 1.0 - probability), "{runs} runs");
}

#[test]
fn loss_in_a_period_happens_in_it_alone() {
    let period = Time::from_micros(30_000)..Time::from_micros(70_000);
    let spec = LinkSpec::default().both(Loss::during(0.2, period));
    let lost = lost(&spec, 3, 100_000);
    assert_eq!(count(&lost[..30_000]) + count(&lost[70_000..]), 0);
    assert!(binomial(count(&lost[30_000..70_000]), 40_000, 0.2));
}

#[test]
fn burst_loss_with_four_probabilities_has_its_stationary_rate_and_memory() {
    for (to_bad, to_good, loss_good, loss_bad) in
        [(0.01, 0.25, 0.001, 0.6), (0.2, 0.1, 0.05, 0.9), (0.5, 0.5, 0.0, 1.0)]
    {
        let burst = BurstLoss::new(to_bad, to_good, loss_good, loss_bad);
        let share = (to_bad * loss_bad + to_good * loss_good) / (to_bad + to_good);
        assert!((burst.stationary_loss() - share).abs() < 1e-12);
        let packets = 400_000;
        let lost = lost(&LinkSpec::default().both(burst), 8, packets);
        // Losses at a distance of `lag` packets are correlated by c^lag times the variance of the states'
        // loss probabilities.
        let (memory, bad) = (1.0 - to_bad - to_good, to_bad / (to_bad + to_good));
        let between = bad * (1.0 - bad) * (loss_bad - loss_good).powi(2);
        let covariances = 2.0 * between * memory / (1.0 - memory);
        let deviation = ((share * (1.0 - share) + covariances) * packets as f64).sqrt();
        let found = count(&lost) as f64;
        assert!((found - share * packets as f64).abs() < 4.5 * deviation, "{found} lost, share {share}");
        for lag in [1_usize, 2, 5] {
            let pairs = lost.iter().zip(&lost[lag..]).filter(|(one, other)| **one && **other).count() as f64;
            let expected = share * share + between * memory.powi(lag as i32);
            assert!(
                (pairs / packets as f64 - expected).abs() < 0.05 * expected + 0.001,
                "lag {lag}: {pairs} pairs"
            );
        }
    }
}

#[test]
fn duplicates_and_late_packets_are_as_many_and_as_late_as_they_should_be() {
    let packets = 50_000;
    let longest = Duration::from_micros(800);
    let spec = LinkSpec::default().both(Duplicate::new(0.1)).both(Reorder::new(0.3, longest));
    let mut link = built(&spec, 5);
    let mut arrived = Vec::new();
    (0..packets).for_each(|_| link.push(Time::ZERO, packet(1), &mut Buffers::default(), &mut arrived));
    assert!(binomial(arrived.len() - packets, packets, 0.1), "{} arrived", arrived.len());
    let late: Vec<f64> =
        arrived.iter().map(|(at, _)| at.as_nanos() as f64).filter(|late| *late > 0.0).collect();
    assert!(binomial(late.len(), arrived.len(), 0.3), "{} late", late.len());
    // Uniform distribution up to the maximum: the mean is half of it, the variance a twelfth of its square.
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    let deviation = 800_000.0 / (12.0 * late.len() as f64).sqrt();
    assert!((mean - 400_000.0).abs() < 4.5 * deviation, "late by {mean} ns");
}

#[test]
fn what_is_dropped_and_lost_adds_up() {
    let mut rng: Rng = Seed(9).rng("mix");
    let spec = LinkSpec::new(10_000_000, Duration::from_millis(10)).loss(0.1).mtu(1_000);
    let mut link = built(&spec, 7);
    let sent: Vec<_> = (0..5_000).map(|k| (k * 300_000, rng.between(1, 1_100) as u32)).collect();
    let arrivals = through(&mut link, &sent);
    let counters = link.counters();
    let bytes = |of: &dyn Fn(usize) -> bool| -> u64 {
        sent.iter().enumerate().filter(|(index, _)| of(*index)).map(|(_, sent)| u64::from(sent.1)).sum()
    };
    assert_eq!((counters.entered, counters.entered_bytes), (5_000, bytes(&|_| true)));
    assert_eq!(counters.delivered, arrivals.iter().flatten().count() as u64);
    assert_eq!(counters.delivered_bytes, bytes(&|index| arrivals[index].is_some()));
    assert_eq!(counters.entered, counters.delivered + counters.lost_in_all());
    let [overflow, chance, large] =
        [Lost::Overflow, Lost::Chance, Lost::TooLarge].map(|why| counters.lost(why));
    assert!(overflow > 0, "the queue is to drop some");
    assert_eq!(large, sent.iter().filter(|sent| sent.1 > 1_000).count() as u64);
    // Only packets that passed the queue can be lost on the wire.
    assert!(binomial(chance as usize, (5_000 - overflow - large) as usize, 0.1));
}
