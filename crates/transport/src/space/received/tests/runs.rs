//! Packets with consecutive numbers that are received together: the result equals that of receiving them one by
//! one, in every configuration in which [`Numbers::gap_after`] permits it.

use std::ops::Range;

use anabranch_wire::decode_packet_number;
use proptest::collection::vec;
use proptest::sample::select;

use super::*;

/// Returns every order of ranges, with every horizon that lets packets be recorded together, and any length of
/// ACK frames.
fn any_config() -> impl Strategy<Value = AckConfig> {
    let orders = [
        None,
        Some(RangeOrder::NewestFirst),
        Some(RangeOrder::OldestFirst),
        Some(RangeOrder::LeastSentFirst),
        Some(RangeOrder::NewsFirst),
    ];
    let horizons = [Horizon::None, Horizon::Delay { age: Duration::from_millis(3), times_sent: 2 }];
    (select(orders.to_vec()), select(horizons.to_vec()), 2usize..70).prop_map(
        |(order, horizon, max_ranges)| AckConfig { order, horizon, max_ranges, ..AckConfig::default() },
    )
}

/// Receives ack-eliciting packets of one path together.
fn receive_run(numbers: &mut Numbers, ack: &mut AckState, now: Time, came: Range<u64>, policy: &AckRule) {
    let packets = Packets { numbers: came, ack_eliciting: true, ecn: None };
    super::super::receive(numbers, ack, now, packets, policy);
}

/// Checks that the gap after `first` names only numbers that were not received, and only those that a receiver
/// decodes from their last `bits` bits. Returns how many it names in a row.
fn named(numbers: &Numbers, first: u64, bits: u32) -> u64 {
    let largest = numbers.largest();
    let unseen = (first + 1..first + 50).take_while(|number| !numbers.is_duplicate(*number)).count() as u64;
    let Some(gap) = numbers.gap_after(first) else {
        assert!(unseen == 0 || numbers.is_duplicate(first) && numbers.ranges.range_of(first).is_none());
        return 0;
    };
    assert_eq!(gap.first(), first + 1);
    let bits_of = |number: u64| number & ((1 << bits) - 1);
    for number in first + 1..first + 50 {
        let truncated = bits_of(number);
        let is_named = gap.names(number, truncated, bits);
        assert!(!is_named || number <= first + unseen, "{number} was received");
        assert!(!is_named || decode_packet_number(largest.max(Some(number - 1)), truncated, bits) == number);
        assert!(!gap.names(number, bits_of(number + 1), bits));
    }
    (first + 1..first + 50).take_while(|number| gap.names(*number, bits_of(*number), bits)).count() as u64
}

proptest! {
    #[test]
    fn a_run_is_what_its_packets_are(
        runs in vec((0u64..6, 1u64..64, any::<bool>(), 0usize..3, any::<bool>()), 1..30),
        threshold in 1u64..100,
        reordering_threshold in 0u64..12,
        config in any_config(),
    ) {
        let policy = AckRule { threshold, reordering_threshold, ..POLICY };
        let new = || Received::new(PathId(3), &config);
        let (mut together, mut alone) = (new(), new());
        let mut next = 0;
        for (step, (skipped, len, ack_eliciting, mark, write)) in runs.into_iter().enumerate() {
            let came = next + skipped..next + skipped + len;
            let (now, ecn) = (at(step as u64), [None, Some(Ecn::Ect0), Some(Ecn::Ce)][mark]);
            let Received { numbers, ack } = &mut together;
            let packets = Packets { numbers: came.clone(), ack_eliciting, ecn };
            super::super::receive(numbers, ack, now, packets, &policy);
            came.clone().for_each(|pn| alone.on_packet(now, pn, ack_eliciting, ecn, &policy));
            next = came.end;
            if write {
                prop_assert_eq!(ack_in(&mut together, now, 300), ack_in(&mut alone, now, 300));
            }
            prop_assert_eq!(format!("{together:?}"), format!("{alone:?}"));
        }
    }

    /// Checks this for paths that share their numbers, and runs below numbers that another path received.
    #[test]
    fn a_run_between_the_numbers_of_other_paths_is_what_its_packets_are(
        runs in vec((0usize..2, 0u64..400, 0u64..40, 0usize..2, any::<bool>()), 1..60),
        threshold in 1u64..100,
        reordering_threshold in 0u64..12,
        config in any_config(),
    ) {
        let policy = AckRule { threshold, reordering_threshold, ..POLICY };
        let new = || {
            let (numbers, one, other) = shared(&config);
            (numbers, [one, other])
        };
        let (mut together, mut alone) = (new(), new());
        for (step, (path, first, len, size, write)) in runs.into_iter().enumerate() {
            if together.0.is_duplicate(first) {
                continue;
            }
            let now = at(step as u64);
            for (numbers, paths) in [&mut together, &mut alone] {
                receive_run(numbers, &mut paths[path], now, first..first + 1, &policy);
            }
            let len = len.min(named(&together.0, first, [8, 16][size]));
            if len > 0 {
                let came = first + 1..first + 1 + len;
                receive_run(&mut together.0, &mut together.1[path], now, came.clone(), &policy);
                for number in came {
                    receive_run(&mut alone.0, &mut alone.1[path], now, number..number + 1, &policy);
                }
            }
            prop_assert_eq!(format!("{together:?}"), format!("{alone:?}"));
            if write {
                let said = [&mut together, &mut alone].map(|(numbers, paths)| tell_for(numbers, &mut paths[path], now));
                prop_assert_eq!(&said[0], &said[1]);
            }
        }
    }
}

#[test]
fn a_horizon_that_follows_the_largest_number_lets_no_packets_be_recorded_together() {
    let config = AckConfig { horizon: Horizon::Packets(20), ..AckConfig::default() };
    let mut received = Received::new(PathId(3), &config);
    receive(&mut received, &POLICY, 0..3);
    assert_eq!(received.numbers.gap_after(2), None);
}

/// The next packet of a slow path may have a much larger number with the same last bits. The train must not
/// take it for its next one.
#[test]
fn bits_that_may_mean_a_larger_number_name_none() {
    let (mut numbers, mut fast, mut slow) = shared(&AckConfig::default());
    receive_run(&mut numbers, &mut slow, at(0), 100..111, &POLICY);
    let gap = |numbers: &Numbers| numbers.gap_after(110).unwrap();
    assert!(gap(&numbers).names(111, 111, 8));
    receive_run(&mut numbers, &mut fast, at(0), 112..367, &POLICY);
    assert!(!gap(&numbers).names(111, 111, 8), "367 has the same last bits");
    assert!(gap(&numbers).names(111, 111, 16));
    assert!(!gap(&numbers).names(112, 112, 16), "it was received");
}
