use std::collections::BTreeSet;

use anabranch_wire::{Direction, EcnCounts, Frame, Frames};
use proptest::prelude::*;

use super::*;
use crate::token::Token;

const POLICY: AckPolicy =
    AckPolicy { threshold: 2, max_delay: Duration::from_millis(25), reordering_threshold: 1, max_ranges: 64 };

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Receives ack-eliciting packets at time 0.
fn receive(received: &mut Received, policy: &AckPolicy, numbers: impl IntoIterator<Item = u64>) {
    for pn in numbers {
        assert!(!received.is_duplicate(pn));
        received.on_packet(at(0), pn, true, None, policy);
    }
}

/// Ranges, delay and counts of an ACK.
type Said = (Vec<(u64, u64)>, u64, Option<EcnCounts>);

/// Writes an ACK into `room` bytes and reads it back: ranges, delay, counts.
fn ack_in(received: &mut Received, now: Time, policy: &AckPolicy, room: usize) -> Option<Said> {
    let mut buf = vec![0; room];
    let mut tokens = Tokens::new();
    let mut w = Writer::new(&mut buf, Direction::Forward);
    if !received.write_ack(now, &mut w, SpaceId::Data, PathId(3), true, 3, policy, &mut tokens) {
        assert!(w.is_empty() && tokens.is_empty());
        return None;
    }
    let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
    let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
    assert_eq!(ack.path, Some(PathId(3)));
    assert_eq!(tokens[..], [Token::Ack { space: SpaceId::Data, path: PathId(3), largest: ack.largest }]);
    Some((ack.ranges().map(|range| (*range.start(), *range.end())).collect(), ack.delay, ack.ecn))
}

fn ack(received: &mut Received) -> Vec<(u64, u64)> {
    ack_in(received, at(0), &POLICY, 1500).unwrap().0
}

#[test]
fn nothing_is_owed_before_anything_came() {
    let mut received = Received::new();
    received.debt.require_ack();
    assert!(!received.debt.ack_now() && !received.debt.has_unacked() && !received.debt.can_ack());
    assert_eq!((received.largest(), received.debt.ack_deadline()), (None, None));
    assert_eq!(ack_in(&mut received, at(0), &POLICY, 1500), None);
}

#[test]
fn the_threshold_makes_an_ack_immediate_and_the_first_packet_sets_the_deadline() {
    let mut received = Received::new();
    received.on_packet(at(10), 0, true, None, &POLICY);
    assert!(!received.debt.ack_now() && received.debt.has_unacked());
    assert_eq!(received.debt.ack_deadline(), Some(at(35)));
    received.on_packet(at(20), 1, true, None, &POLICY);
    assert!(received.debt.ack_now());
    assert_eq!(received.debt.ack_deadline(), None);

    // 8 ms after the largest, in units of 2^3 µs.
    assert_eq!(ack_in(&mut received, at(28), &POLICY, 100), Some((vec![(0, 1)], 1000, None)));
    assert!(!received.debt.ack_now() && !received.debt.has_unacked() && !received.debt.can_ack());
    assert_eq!(received.debt.ack_deadline(), None);

    let each = AckPolicy { threshold: 1, ..POLICY };
    received.on_packet(at(30), 2, true, None, &each);
    assert!(received.debt.ack_now());
}

#[test]
fn packets_that_elicit_nothing_owe_nothing() {
    let mut received = Received::new();
    for pn in 0..10 {
        received.on_packet(at(0), 2 * pn, false, None, &POLICY);
    }
    assert!(!received.debt.ack_now() && !received.debt.has_unacked());
    assert_eq!(received.debt.ack_deadline(), None);
    assert!(received.debt.can_ack(), "but they may be told of");
}

#[test]
fn an_immediate_ack_frame_and_a_full_packet() {
    let mut received = Received::new();
    receive(&mut received, &POLICY, [0]);
    received.debt.require_ack();
    assert!(received.debt.ack_now());
    assert_eq!(ack_in(&mut received, at(0), &POLICY, 3), None, "no room");
    assert!(received.debt.ack_now() && received.debt.has_unacked(), "the debt stays");
    assert_eq!(ack(&mut received), [(0, 0)]);
}

#[test]
fn reordering_as_in_rfc_9000() {
    let policy = AckPolicy { threshold: 100, ..POLICY };
    let mut received = Received::new();
    for (pn, eliciting, immediate) in [
        (0, true, false),
        (2, true, true),   // a hole
        (3, true, false),  // in order again
        (1, true, true),   // late
        (5, false, false), // a hole, but nothing to acknowledge
        (6, true, true),   // the hole lies between two ack-eliciting packets
        (4, false, false),
        (7, true, false),
    ] {
        received.on_packet(at(0), pn, eliciting, None, &policy);
        assert_eq!(received.debt.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
    let never = AckPolicy { reordering_threshold: 0, ..policy };
    receive(&mut received, &never, [20, 10, 15, 30]);
    assert!(!received.debt.ack_now());
}

/// The example of draft-ietf-quic-ack-frequency §6.2.1.
#[test]
fn reordering_threshold_above_one() {
    let policy = AckPolicy { threshold: 100, reordering_threshold: 3, ..POLICY };
    let mut received = Received::new();
    for (pn, immediate) in [
        (0, false),
        (1, false),
        (3, false),
        (4, false),
        (5, true),
        (8, false),
        (9, true),
        (10, true),
        (11, false),
    ] {
        receive(&mut received, &policy, [pn]);
        assert_eq!(received.debt.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
}

#[test]
fn only_the_first_of_a_run_of_ce_marks_is_urgent() {
    let policy = AckPolicy { threshold: 100, ..POLICY };
    let mut received = Received::new();
    let marks = [Some(Ecn::Ect0), Some(Ecn::Ce), Some(Ecn::Ce), Some(Ecn::Ect1), Some(Ecn::Ce), None];
    for (pn, (mark, immediate)) in (0..).zip(marks.into_iter().zip([false, true, false, false, true, false]))
    {
        received.on_packet(at(0), pn, true, mark, &policy);
        assert_eq!(received.debt.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
    let counts = EcnCounts { ect0: 1, ect1: 1, ce: 3 };
    assert_eq!(received.numbers.ecn(), counts);
    assert_eq!(ack_in(&mut received, at(0), &policy, 100).unwrap().2, Some(counts));
}

#[test]
fn confirmed_ranges_are_not_repeated_but_remembered() {
    let mut received = Received::new();
    receive(&mut received, &POLICY, [0, 2, 4]);
    assert_eq!(ack(&mut received), [(4, 4), (2, 2), (0, 0)]);
    received.numbers.on_ack_acked(4);
    receive(&mut received, &POLICY, [6]);
    assert_eq!(ack(&mut received), [(6, 6)]);
    assert_eq!(ack(&mut received), [(6, 6)], "the largest is always in it");
    assert!([0, 2, 4, 6].into_iter().all(|pn| received.is_duplicate(pn)));
    assert!([1, 3, 5, 7].into_iter().all(|pn| !received.is_duplicate(pn)));
}

#[test]
fn a_late_packet_is_acknowledged_although_the_ack_above_it_was_confirmed() {
    let mut received = Received::new();
    receive(&mut received, &POLICY, [0, 2, 4]);
    ack(&mut received);
    received.numbers.on_ack_acked(4);
    receive(&mut received, &POLICY, [1]);
    // Another ACK of the time before packet 1 is confirmed: it proves nothing about packet 1.
    received.numbers.on_ack_acked(4);
    assert_eq!(ack(&mut received), [(4, 4), (0, 2)]);
    receive(&mut received, &POLICY, [5]);
    ack(&mut received);
    received.numbers.on_ack_acked(5);
    receive(&mut received, &POLICY, [9]);
    assert_eq!(ack(&mut received), [(9, 9)]);
}

#[test]
fn a_small_packet_takes_the_newest_ranges() {
    let mut received = Received::new();
    receive(&mut received, &POLICY, (0..10).map(|n| 2 * n));
    let (ranges, ..) = ack_in(&mut received, at(0), &POLICY, 12).unwrap();
    assert!(ranges.len() < 10);
    let newest: Vec<_> = (0..10).rev().map(|n| (2 * n, 2 * n)).take(ranges.len()).collect();
    assert_eq!(ranges, newest);
}

/// Row 4 of the attack table: odd packet numbers only.
#[test]
fn row_4_holes_cost_at_most_64_ranges() {
    let mut received = Received::new();
    for n in 0..1_000_000 {
        received.on_packet(at(0), 2 * n + 1, true, None, &POLICY);
    }
    assert_eq!(received.numbers.ranges.len(), 64);
    assert_eq!(received.largest(), Some(1_999_999));
    assert!(!received.is_duplicate(1_999_998), "the newest holes are open");
    assert!(
        (0..1_999_999 - 130).step_by(997).all(|pn| received.is_duplicate(pn)),
        "the forgotten ones closed"
    );
    let (ranges, ..) = ack_in(&mut received, at(0), &POLICY, 1500).unwrap();
    assert_eq!(ranges, (0..64).map(|n| (1_999_999 - 2 * n, 1_999_999 - 2 * n)).collect::<Vec<_>>());
}

#[test]
fn no_policy_remembers_without_bound() {
    let policy = AckPolicy { max_ranges: usize::MAX, ..POLICY };
    let mut received = Received::new();
    receive(&mut received, &policy, (0..2 * MAX_RANGES as u64).map(|n| 2 * n));
    assert_eq!(received.numbers.ranges.len(), MAX_RANGES);
}

proptest! {
    /// Against a plain set: what is a duplicate, and what an ACK says when nothing was confirmed.
    #[test]
    fn like_a_set(numbers in proptest::collection::vec(0u64..400, 1..300), max_ranges in 1usize..20) {
        let policy = AckPolicy { max_ranges, ..POLICY };
        let mut received = Received::new();
        let mut set = BTreeSet::new();
        for pn in numbers {
            let duplicate = received.is_duplicate(pn);
            prop_assert!(duplicate || !set.contains(&pn), "a number twice");
            if !duplicate {
                received.on_packet(at(0), pn, true, None, &policy);
                set.insert(pn);
            }
            prop_assert!(received.is_duplicate(pn));
        }
        prop_assert_eq!(received.largest(), set.last().copied());
        // The newest ranges of the set, naively.
        let mut naive: Vec<(u64, u64)> = Vec::new();
        for &pn in set.iter().rev() {
            match naive.last_mut() {
                Some(range) if range.0 == pn + 1 => range.0 = pn,
                _ => naive.push((pn, pn)),
            }
        }
        naive.truncate(max_ranges);
        let said = ack_in(&mut received, at(0), &policy, 5000).unwrap().0;
        prop_assert!(said.len() <= max_ranges);
        // Forgetting may have cut off numbers below the horizon before their range grew, never others.
        for (said, naive) in said.iter().zip(&naive) {
            prop_assert_eq!(said.1, naive.1);
            prop_assert!(said.0 == naive.0 || said.0 == received.numbers.horizon.max(naive.0));
        }
    }

    /// Whatever is lost of the ACKs, the peer learns of every packet: ACK frames are lost or confirmed at random, and a
    /// packet that no confirmed ACK named is always in the next one.
    #[test]
    fn every_packet_is_reported(
        steps in proptest::collection::vec((0u64..60, any::<bool>(), proptest::option::of(0usize..8)), 1..200),
    ) {
        let mut received = Received::new();
        let mut known = BTreeSet::new();
        let mut frames: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut all = BTreeSet::new();
        for (pn, write, confirm) in steps {
            if !received.is_duplicate(pn) {
                received.on_packet(at(0), pn, true, None, &POLICY);
                all.insert(pn);
            }
            if write {
                let ranges = ack_in(&mut received, at(0), &POLICY, 1500).unwrap().0;
                let named = |pn: u64| ranges.iter().any(|range| (range.0..=range.1).contains(&pn));
                prop_assert!(all.iter().all(|pn| named(*pn) || known.contains(pn)));
                prop_assert!((0..60).all(|pn| !named(pn) || all.contains(&pn)));
                frames.push(ranges);
            }
            if let Some(index) = confirm.filter(|index| *index < frames.len()) {
                let at = frames.len() - 1 - index;
                let ranges = frames.remove(at);
                received.numbers.on_ack_acked(ranges[0].1);
                known.extend(ranges.into_iter().flat_map(|range| range.0..=range.1));
            }
        }
    }
}

/// An ACK of one of two paths that share their numbers.
fn shared_ack(numbers: &Numbers, debt: &mut Debt, now: Time) -> (Vec<(u64, u64)>, u64) {
    let mut buf = [0; 500];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    let mut tokens = Tokens::new();
    assert!(debt.write_ack(now, &mut w, SpaceId::Data, PathId(1), false, 3, numbers, &POLICY, &mut tokens));
    let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
    let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
    assert_eq!(ack.path, None);
    (ack.ranges().map(|range| (*range.start(), *range.end())).collect(), ack.delay)
}

#[test]
fn paths_that_share_numbers_acknowledge_up_to_their_own_largest() {
    let (mut numbers, mut fast, mut slow) = (Numbers::shared(), Debt::default(), Debt::default());
    for pn in [0, 1, 3, 4] {
        super::receive(&mut numbers, &mut fast, at(10), pn, true, None, &POLICY);
    }
    super::receive(&mut numbers, &mut slow, at(20), 2, true, None, &POLICY);
    assert!(
        fast.ack_now() && !slow.ack_now(),
        "each counts for itself, and what is slow is not out of order"
    );
    assert_eq!(slow.ack_deadline(), Some(at(45)));
    assert_eq!((fast.largest(), slow.largest(), numbers.largest()), (Some(4), Some(2), Some(4)));
    // Each delay counts from the path's own largest: 20 ms and 10 ms in units of 8 µs.
    assert_eq!(shared_ack(&numbers, &mut fast, at(30)), (vec![(0, 4)], 2_500));
    assert_eq!(shared_ack(&numbers, &mut slow, at(30)), (vec![(0, 2)], 1_250));
    // The peer knows everything up to 2 for sure, but not that 3 and 4 came, since 2 came after them.
    numbers.on_ack_acked(2);
    super::receive(&mut numbers, &mut slow, at(40), 9, true, None, &POLICY);
    assert_eq!(shared_ack(&numbers, &mut slow, at(40)).0, [(9, 9), (0, 4)]);
    assert!((0..5).all(|pn| numbers.is_duplicate(pn)) && !numbers.is_duplicate(5));
}

#[test]
fn a_packet_that_is_late_on_its_own_path_is_out_of_order_although_numbers_are_shared() {
    for (threshold, late, immediate) in [(0, 3, false), (1, 9, true), (3, 8, false), (3, 7, true)] {
        let policy = AckPolicy { threshold: 100, reordering_threshold: threshold, ..POLICY };
        let (mut numbers, mut debt) = (Numbers::shared(), Debt::default());
        super::receive(&mut numbers, &mut debt, at(0), 10, true, None, &policy);
        assert!(!debt.ack_now(), "a hole in front of it");
        super::receive(&mut numbers, &mut debt, at(0), late, true, None, &policy);
        assert_eq!(debt.ack_now(), immediate, "{late} with threshold {threshold}");
    }
}
