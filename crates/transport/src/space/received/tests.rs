mod runs;

use std::time::Duration;

use std::collections::BTreeSet;

use anabranch_wire::{Direction, EcnCounts, Frame, Frames};
use proptest::prelude::*;

use super::history::MAX_NAMED_FRAMES;
use super::*;
use crate::config::{Horizon, RangeOrder};
use crate::token::Token;

const POLICY: AckRule =
    AckRule { threshold: 2, max_delay: Duration::from_millis(25), reordering_threshold: 1 };

/// Creates a path with its own numbers and the default strategy.
fn received() -> Received {
    Received::new(PathId(3), &AckConfig::default())
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Receives ack-eliciting packets at time 0.
fn receive(received: &mut Received, policy: &AckRule, numbers: impl IntoIterator<Item = u64>) {
    for pn in numbers {
        assert!(!received.is_duplicate(pn));
        received.on_packet(at(0), pn, true, None, policy);
    }
}

/// Receives an ack-eliciting packet on one of the paths that share `numbers`.
fn receive_one(numbers: &mut Numbers, ack: &mut AckState, now: Time, pn: u64, policy: &AckRule) {
    super::receive(
        numbers,
        ack,
        now,
        Packets { numbers: pn..pn + 1, ack_eliciting: true, ecn: None },
        policy,
    );
}

/// Ranges, ACK Delay and ECN counts of an ACK.
type Said = (Vec<(u64, u64)>, u64, Option<EcnCounts>);

/// Writes an ACK, and returns its ranges and the receipt for confirming it.
fn tell(received: &mut Received) -> (Vec<(u64, u64)>, Receipt) {
    let Received { numbers, ack } = received;
    tell_for(numbers, ack, at(0))
}

/// Writes an ACK of one of the paths that share `numbers`.
fn tell_for(numbers: &mut Numbers, ack: &mut AckState, now: Time) -> (Vec<(u64, u64)>, Receipt) {
    let mut buf = [0; 5000];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    let mut tokens = Tokens::new();
    assert!(
        ack.write_ack(
            now,
            &mut w,
            AckForm { space: SpaceId::Data, multipath: false, ack_delay_exponent: 3 },
            numbers,
            &mut tokens
        ) > 0
    );
    let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
    let (Frame::Ack(ack), [Token::Ack { receipt, .. }]) = (frame, &tokens[..]) else { panic!("{tokens:?}") };
    (ack.ranges().map(|range| (*range.start(), *range.end())).collect(), *receipt)
}

/// Writes an ACK into `room` bytes and reads it back: ranges, ACK Delay, ECN counts.
fn ack_in(received: &mut Received, now: Time, room: usize) -> Option<Said> {
    let mut buf = vec![0; room];
    let mut tokens = Tokens::new();
    let mut w = Writer::new(&mut buf, Direction::Forward);
    if received.write_ack(
        now,
        &mut w,
        AckForm { space: SpaceId::Data, multipath: true, ack_delay_exponent: 3 },
        &mut tokens,
    ) == 0
    {
        assert!(w.is_empty() && tokens.is_empty());
        return None;
    }
    let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
    let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
    assert_eq!(ack.path, Some(PathId(3)));
    assert!(matches!(tokens[..], [Token::Ack { space: SpaceId::Data, path: PathId(3), .. }]));
    Some((ack.ranges().map(|range| (*range.start(), *range.end())).collect(), ack.delay, ack.ecn))
}

fn ack(received: &mut Received) -> Vec<(u64, u64)> {
    ack_in(received, at(0), 1500).unwrap().0
}

#[test]
fn nothing_is_owed_before_anything_came() {
    let mut received = received();
    received.ack.require_ack();
    assert!(!received.ack.ack_now() && !received.ack.has_unacked() && !received.ack.can_ack());
    assert_eq!((received.largest(), received.ack.ack_deadline()), (None, None));
    assert_eq!(ack_in(&mut received, at(0), 1500), None);
}

#[test]
fn the_threshold_makes_an_ack_immediate_and_the_first_packet_sets_the_deadline() {
    let mut received = received();
    received.on_packet(at(10), 0, true, None, &POLICY);
    assert!(!received.ack.ack_now() && received.ack.has_unacked());
    assert_eq!(received.ack.ack_deadline(), Some(at(35)));
    received.on_packet(at(20), 1, true, None, &POLICY);
    assert!(received.ack.ack_now());
    assert_eq!(received.ack.ack_deadline(), None);

    // 8 ms after the largest, in units of 2^3 µs.
    assert_eq!(ack_in(&mut received, at(28), 100), Some((vec![(0, 1)], 1000, None)));
    assert!(!received.ack.ack_now() && !received.ack.has_unacked() && !received.ack.can_ack());
    assert_eq!(received.ack.ack_deadline(), None);

    let each = AckRule { threshold: 1, ..POLICY };
    received.on_packet(at(30), 2, true, None, &each);
    assert!(received.ack.ack_now());
}

#[test]
fn packets_that_elicit_nothing_owe_nothing() {
    let mut received = received();
    for pn in 0..10 {
        received.on_packet(at(0), 2 * pn, false, None, &POLICY);
    }
    assert!(!received.ack.ack_now() && !received.ack.has_unacked());
    assert_eq!(received.ack.ack_deadline(), None);
    assert!(received.ack.can_ack(), "but they may be receipt of");
}

#[test]
fn an_immediate_ack_frame_and_a_full_packet() {
    let mut received = received();
    receive(&mut received, &POLICY, [0]);
    received.ack.require_ack();
    assert!(received.ack.ack_now());
    assert_eq!(ack_in(&mut received, at(0), 3), None, "no room");
    assert!(received.ack.ack_now() && received.ack.has_unacked(), "the ACK stays owed");
    assert_eq!(ack(&mut received), [(0, 0)]);
}

#[test]
fn reordering_as_in_rfc_9000() {
    let policy = AckRule { threshold: 100, ..POLICY };
    let mut received = received();
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
        assert_eq!(received.ack.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
    let never = AckRule { reordering_threshold: 0, ..policy };
    receive(&mut received, &never, [20, 10, 15, 30]);
    assert!(!received.ack.ack_now());
}

/// Checks the example of draft-ietf-quic-ack-frequency §6.2.1.
#[test]
fn reordering_threshold_above_one() {
    let policy = AckRule { threshold: 100, reordering_threshold: 3, ..POLICY };
    let mut received = received();
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
        assert_eq!(received.ack.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
}

#[test]
fn only_the_first_of_a_run_of_ce_marks_is_urgent() {
    let policy = AckRule { threshold: 100, ..POLICY };
    let mut received = received();
    let marks = [Some(Ecn::Ect0), Some(Ecn::Ce), Some(Ecn::Ce), Some(Ecn::Ect1), Some(Ecn::Ce), None];
    for (pn, (mark, immediate)) in (0..).zip(marks.into_iter().zip([false, true, false, false, true, false]))
    {
        received.on_packet(at(0), pn, true, mark, &policy);
        assert_eq!(received.ack.ack_now(), immediate, "packet {pn}");
        if immediate {
            ack(&mut received);
        }
    }
    let counts = EcnCounts { ect0: 1, ect1: 1, ce: 3 };
    assert_eq!(received.numbers.ecn(), counts);
    assert_eq!(ack_in(&mut received, at(0), 100).unwrap().2, Some(counts));
}

#[test]
fn confirmed_ranges_are_not_repeated_but_remembered() {
    let mut received = received();
    receive(&mut received, &POLICY, [0, 2, 4]);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(4, 4), (2, 2), (0, 0)]);
    received.numbers.on_ack_acked(receipt);
    receive(&mut received, &POLICY, [6]);
    assert_eq!(ack(&mut received), [(6, 6)]);
    assert_eq!(ack(&mut received), [(6, 6)], "the largest is always in it");
    assert!([0, 2, 4, 6].into_iter().all(|pn| received.is_duplicate(pn)));
    assert!([1, 3, 5, 7].into_iter().all(|pn| !received.is_duplicate(pn)));
}

#[test]
fn a_late_packet_is_acknowledged_although_the_ack_above_it_was_confirmed() {
    let mut received = received();
    receive(&mut received, &POLICY, [0, 2, 4]);
    let ((_, first), (_, second)) = (tell(&mut received), tell(&mut received));
    received.numbers.on_ack_acked(first);
    receive(&mut received, &POLICY, [1]);
    // Another ACK, written before packet 1 arrived, is confirmed. It proves nothing about packet 1.
    received.numbers.on_ack_acked(second);
    let (ranges, third) = tell(&mut received);
    assert_eq!(ranges, [(4, 4), (0, 2)]);
    received.numbers.on_ack_acked(third);
    receive(&mut received, &POLICY, [9]);
    assert_eq!(ack(&mut received), [(9, 9)]);
}

#[test]
fn a_small_packet_takes_the_newest_ranges_and_proves_nothing_of_the_others() {
    let mut received = received();
    receive(&mut received, &POLICY, (0..10).map(|n| 2 * n));
    let (mut buf, mut tokens) = ([0; 12], Tokens::new());
    let mut w = Writer::new(&mut buf, Direction::Forward);
    assert!(
        received.write_ack(
            at(0),
            &mut w,
            AckForm { space: SpaceId::Data, multipath: true, ack_delay_exponent: 3 },
            &mut tokens
        ) < 10
    );
    let [Token::Ack { receipt, .. }] = tokens[..] else { panic!("{tokens:?}") };
    received.numbers.on_ack_acked(receipt);
    assert_eq!(ack(&mut received).len(), 10);
    let (ranges, ..) = ack_in(&mut received, at(0), 12).unwrap();
    assert!(ranges.len() < 10);
    let newest: Vec<_> = (0..10).rev().map(|n| (2 * n, 2 * n)).take(ranges.len()).collect();
    assert_eq!(ranges, newest);
}

/// Row 4 of the attack table: only odd packet numbers are received.
#[test]
fn row_4_holes_cost_at_most_64_ranges() {
    let mut received = received();
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
    let (ranges, ..) = ack_in(&mut received, at(0), 1500).unwrap();
    assert_eq!(ranges, (0..64).map(|n| (1_999_999 - 2 * n, 1_999_999 - 2 * n)).collect::<Vec<_>>());
}

#[test]
fn no_policy_remembers_without_bound() {
    let mut received =
        Received::new(PathId(3), &AckConfig { max_ranges: usize::MAX, ..AckConfig::default() });
    receive(&mut received, &POLICY, (0..2 * MAX_RANGES as u64).map(|n| 2 * n));
    assert_eq!(received.numbers.ranges.len(), MAX_RANGES);
}

proptest! {
    /// Compares with a plain set: which packets are duplicates, and what an ACK reports if none was
    /// confirmed.
    #[test]
    fn like_a_set(numbers in proptest::collection::vec(0u64..400, 1..300), max_ranges in 2usize..20) {
        let mut received = Received::new(PathId(3), &AckConfig { max_ranges, ..AckConfig::default() });
        received.numbers.kept = max_ranges as u16;
        let mut set = BTreeSet::new();
        for pn in numbers {
            let duplicate = received.is_duplicate(pn);
            prop_assert!(duplicate || !set.contains(&pn), "a number twice");
            if !duplicate {
                received.on_packet(at(0), pn, true, None, &POLICY);
                set.insert(pn);
            }
            prop_assert!(received.is_duplicate(pn));
        }
        prop_assert_eq!(received.largest(), set.last().copied());
        // Newest ranges of the set, computed naively.
        let mut naive: Vec<(u64, u64)> = Vec::new();
        for &pn in set.iter().rev() {
            match naive.last_mut() {
                Some(range) if range.0 == pn + 1 => range.0 = pn,
                _ => naive.push((pn, pn)),
            }
        }
        naive.truncate(max_ranges);
        let said = ack_in(&mut received, at(0), 5000).unwrap().0;
        prop_assert!(said.len() <= max_ranges);
        // A range may lack its numbers below the horizon, if they were dropped before the range grew. No
        // other numbers are missing.
        for (said, naive) in said.iter().zip(&naive) {
            prop_assert_eq!(said.1, naive.1);
            prop_assert!(said.0 == naive.0 || said.0 == received.numbers.horizon.max(naive.0));
        }
    }

    /// Checks that the peer learns of every packet although ACK frames are lost or confirmed at random. A
    /// packet that no confirmed ACK has reported is always in the next one.
    #[test]
    fn every_packet_is_reported(
        steps in proptest::collection::vec((0u64..60, any::<bool>(), proptest::option::of(0usize..8)), 1..200),
    ) {
        let mut received = received();
        let mut known = BTreeSet::new();
        let mut frames: Vec<(Vec<(u64, u64)>, Receipt)> = Vec::new();
        let mut all = BTreeSet::new();
        for (pn, write, confirm) in steps {
            if !received.is_duplicate(pn) {
                received.on_packet(at(0), pn, true, None, &POLICY);
                all.insert(pn);
            }
            if write {
                let (ranges, receipt) = tell(&mut received);
                let named = |pn: u64| ranges.iter().any(|range| (range.0..=range.1).contains(&pn));
                prop_assert!(all.iter().all(|pn| named(*pn) || known.contains(pn)));
                prop_assert!((0..60).all(|pn| !named(pn) || all.contains(&pn)));
                frames.push((ranges, receipt));
            }
            if let Some(index) = confirm.filter(|index| *index < frames.len()) {
                let at = frames.len() - 1 - index;
                let (ranges, receipt) = frames.remove(at);
                received.numbers.on_ack_acked(receipt);
                known.extend(ranges.into_iter().flat_map(|range| range.0..=range.1));
            }
        }
    }
}

/// Returns the state of two paths that share their numbers, with this configuration.
fn shared(config: &AckConfig) -> (Numbers, AckState, AckState) {
    (Numbers::shared(config), AckState::new(PathId(0)), AckState::new(PathId(1)))
}

fn of_order(order: RangeOrder) -> AckConfig {
    AckConfig { order: Some(order), ..AckConfig::default() }
}

#[test]
fn paths_that_share_numbers_acknowledge_up_to_their_own_largest() {
    let (mut numbers, mut fast, mut slow) = shared(&of_order(RangeOrder::NewestFirst));
    for pn in [0, 1, 3, 4] {
        receive_one(&mut numbers, &mut fast, at(10), pn, &POLICY);
    }
    receive_one(&mut numbers, &mut slow, at(20), 2, &POLICY);
    assert!(
        fast.ack_now() && !slow.ack_now(),
        "each counts for itself, and what is slow is not out of order"
    );
    assert_eq!(slow.ack_deadline(), Some(at(45)));
    assert_eq!((fast.largest(), slow.largest(), numbers.largest()), (Some(4), Some(2), Some(4)));
    assert_eq!(tell_for(&mut numbers, &mut fast, at(30)).0, [(0, 4)]);
    let (ranges, receipt) = tell_for(&mut numbers, &mut slow, at(30));
    assert_eq!(ranges, [(0, 2)]);
    // According to this frame, the peer knows of all packets up to 2, but not that 3 and 4 have arrived.
    numbers.on_ack_acked(receipt);
    receive_one(&mut numbers, &mut slow, at(40), 9, &POLICY);
    assert_eq!(tell_for(&mut numbers, &mut slow, at(40)).0, [(9, 9), (0, 4)]);
    assert!((0..5).all(|pn| numbers.is_duplicate(pn)) && !numbers.is_duplicate(5));
}

#[test]
fn the_delay_counts_from_the_largest_packet_of_the_path() {
    let (mut numbers, mut fast, mut slow) = shared(&AckConfig::default());
    receive_one(&mut numbers, &mut slow, at(10), 2, &POLICY);
    receive_one(&mut numbers, &mut fast, at(20), 4, &POLICY);
    for (ack, delay) in [(&mut fast, 1_250), (&mut slow, 2_500)] {
        let (mut buf, mut tokens) = ([0; 50], Tokens::new());
        let mut w = Writer::new(&mut buf, Direction::Forward);
        assert!(
            ack.write_ack(
                at(30),
                &mut w,
                AckForm { space: SpaceId::Data, multipath: false, ack_delay_exponent: 3 },
                &mut numbers,
                &mut tokens
            ) > 0
        );
        let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
        let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
        assert_eq!(ack.delay, delay, "in units of 8 µs");
    }
}

#[test]
fn a_packet_that_is_late_on_its_own_path_is_out_of_order_although_numbers_are_shared() {
    for (threshold, late, immediate) in [(0, 3, false), (1, 9, true), (3, 8, false), (3, 7, true)] {
        let policy = AckRule { threshold: 100, reordering_threshold: threshold, ..POLICY };
        let (mut numbers, mut ack, _) = shared(&AckConfig::default());
        receive_one(&mut numbers, &mut ack, at(0), 10, &policy);
        assert!(!ack.ack_now(), "a hole in front of it");
        receive_one(&mut numbers, &mut ack, at(0), late, &policy);
        assert_eq!(ack.ack_now(), immediate, "{late} with threshold {threshold}");
    }
}

/// Receives `count` even numbers from 0 on, each followed by a gap, with this range order and at most three
/// ranges per frame.
fn holes(order: RangeOrder, count: u64) -> Received {
    let mut received = Received::new(PathId(3), &AckConfig { max_ranges: 3, ..of_order(order) });
    receive(&mut received, &POLICY, (0..count).map(|n| 2 * n));
    received
}

#[test]
fn newest_first_names_the_highest_numbers() {
    let mut received = holes(RangeOrder::NewestFirst, 6);
    for _ in 0..2 {
        assert_eq!(ack(&mut received), [(10, 10), (8, 8), (6, 6)]);
    }
}

#[test]
fn oldest_first_names_the_largest_and_the_lowest_until_they_are_known() {
    let mut received = holes(RangeOrder::OldestFirst, 6);
    assert_eq!(ack(&mut received), [(10, 10), (2, 2), (0, 0)]);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(10, 10), (2, 2), (0, 0)]);
    received.numbers.on_ack_acked(receipt);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(10, 10), (6, 6), (4, 4)]);
    received.numbers.on_ack_acked(receipt);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(10, 10), (8, 8)]);
    received.numbers.on_ack_acked(receipt);
    assert_eq!(ack(&mut received), [(10, 10)]);
}

#[test]
fn least_sent_first_takes_turns_and_begins_anew_with_a_range_that_grew() {
    let mut received = holes(RangeOrder::LeastSentFirst, 6);
    assert_eq!(ack(&mut received), [(10, 10), (2, 2), (0, 0)]);
    assert_eq!(ack(&mut received), [(10, 10), (6, 6), (4, 4)]);
    assert_eq!(ack(&mut received), [(10, 10), (8, 8), (0, 0)]);
    receive(&mut received, &POLICY, [5]);
    assert_eq!(ack(&mut received), [(10, 10), (4, 6), (2, 2)]);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(10, 10), (8, 8), (4, 6)]);
    received.numbers.on_ack_acked(receipt);
    assert_eq!(
        ack(&mut received),
        [(10, 10), (2, 2), (0, 0)],
        "what the frame named is known, and not the rest"
    );
}

#[test]
fn least_sent_first_leaves_out_what_it_has_named_often_enough() {
    let config = AckConfig { max_repeats: 5, ..of_order(RangeOrder::LeastSentFirst) };
    let mut received = Received::new(PathId(3), &config);
    receive(&mut received, &POLICY, [0, 2]);
    for _ in 0..5 {
        assert_eq!(ack(&mut received), [(2, 2), (0, 0)]);
    }
    assert_eq!(ack(&mut received), [(2, 2)]);
    receive(&mut received, &POLICY, [1]);
    assert_eq!(ack(&mut received), [(0, 2)]);
}

#[test]
fn copies_on_other_paths_take_their_own_turns() {
    let mut received = holes(RangeOrder::LeastSentFirst, 6);
    assert_eq!(ack(&mut received), [(10, 10), (2, 2), (0, 0)]);
    let copy = received.ack.as_reported();
    let done = std::mem::replace(&mut received.ack, copy);
    assert_eq!(ack(&mut received), [(10, 10), (2, 2), (0, 0)]);
    received.ack = done;
    assert_eq!(ack(&mut received), [(10, 10), (6, 6), (4, 4)], "as if there had been no copy");
}

#[test]
fn what_a_frame_named_is_heard_unless_it_has_grown_since() {
    let mut received = holes(RangeOrder::NewestFirst, 6);
    let (ranges, receipt) = tell(&mut received);
    assert_eq!(ranges, [(10, 10), (8, 8), (6, 6)]);
    let (_, repeated) = tell(&mut received);
    receive(&mut received, &POLICY, [5]);
    received.numbers.on_ack_acked(receipt);
    received.numbers.on_ack_acked(receipt);
    assert_eq!(ack(&mut received), [(10, 10), (4, 6), (2, 2)], "8 is known, and 6 has been joined by others");
    received.numbers.on_ack_acked(repeated);
    assert_eq!(ack(&mut received), [(10, 10), (4, 6), (2, 2)]);
    assert!((0..=10).step_by(2).all(|pn| received.is_duplicate(pn)), "known is not forgotten");
}

#[test]
fn frames_that_nobody_acknowledges_are_forgotten() {
    let mut received = holes(RangeOrder::NewestFirst, 3);
    let (_, first) = tell(&mut received);
    for _ in 0..MAX_NAMED_FRAMES {
        ack(&mut received);
    }
    received.numbers.on_ack_acked(first);
    assert_eq!(ack(&mut received).len(), 3);
    let (_, last) = tell(&mut received);
    received.numbers.on_ack_acked(last);
    assert_eq!(ack(&mut received), [(4, 4)]);
}

#[test]
fn news_first_names_what_no_frame_named_and_drops_what_three_did() {
    let mut received = holes(RangeOrder::NewsFirst, 3);
    for _ in 0..3 {
        assert_eq!(ack(&mut received), [(4, 4), (2, 2), (0, 0)]);
    }
    receive(&mut received, &POLICY, [6, 8]);
    assert_eq!(ack(&mut received), [(8, 8), (6, 6), (0, 0)]);
    receive(&mut received, &POLICY, [3]);
    assert_eq!(ack(&mut received), [(8, 8), (6, 6), (2, 4)]);
}

#[test]
fn news_that_does_not_fit_one_frame_makes_another_leave_at_once() {
    let mut received = holes(RangeOrder::NewsFirst, 6);
    assert!(received.ack.ack_now());
    assert_eq!(ack(&mut received), [(10, 10), (2, 2), (0, 0)]);
    assert!(received.ack.ack_now());
    assert_eq!(ack(&mut received), [(10, 10), (6, 6), (4, 4)]);
    assert!(received.ack.ack_now());
    assert_eq!(ack(&mut received)[..2], [(10, 10), (8, 8)]);
    assert!(!received.ack.ack_now());
}

#[test]
fn news_makes_an_ack_leave_before_a_frame_is_full_of_it() {
    let rare = AckRule { threshold: 100, reordering_threshold: 0, ..POLICY };
    let mut received =
        Received::new(PathId(3), &AckConfig { max_ranges: 8, ..of_order(RangeOrder::NewsFirst) });
    for n in 0..4 {
        assert!(!received.ack.ack_now());
        received.on_packet(at(0), 2 * n, true, None, &rare);
    }
    assert!(received.ack.ack_now());
    let mut newest = Received::new(PathId(3), &AckConfig { max_ranges: 8, ..AckConfig::default() });
    receive(&mut newest, &rare, (0..50).map(|n| 2 * n));
    assert!(!newest.ack.ack_now(), "other orders keep to the threshold");
}

#[test]
fn below_a_horizon_of_packets_everything_counts_as_received() {
    let config = AckConfig { horizon: Horizon::Packets(128), ..AckConfig::default() };
    let mut received = Received::new(PathId(3), &config);
    receive(&mut received, &POLICY, [0, 10, 12, 140]);
    assert_eq!(ack(&mut received), [(140, 140), (12, 12)]);
    assert!([0, 1, 9, 10, 11].into_iter().all(|pn| received.is_duplicate(pn)), "dropped as duplicates");
    assert!([13, 139].into_iter().all(|pn| !received.is_duplicate(pn)));
    receive(&mut received, &POLICY, [1_000]);
    assert_eq!(ack(&mut received), [(1_000, 1_000)]);
    assert!(received.is_duplicate(871) && !received.is_duplicate(872));
}

#[test]
fn a_horizon_of_time_gives_up_what_is_old_and_was_told_or_is_known() {
    let horizon = Horizon::Delay { age: Duration::from_millis(1_000), times_sent: 4 };
    let mut received = Received::new(PathId(3), &AckConfig { horizon, ..AckConfig::default() });
    receive(&mut received, &POLICY, [0, 2, 4]);
    for millis in [0, 10, 20, 1_030] {
        assert_eq!(ack_in(&mut received, at(millis), 100).unwrap().0.len(), 3, "after {millis} ms");
    }
    receive(&mut received, &POLICY, [3]);
    // These ranges were reported four times and are more than a second old. Only packet 0 is dropped: 2 to 4
    // is a range that has just grown, so it counts as new, and it is the highest range, which is always kept.
    assert_eq!(ack_in(&mut received, at(1_040), 100).unwrap().0, [(2, 4)]);
    assert!(received.is_duplicate(0) && !received.is_duplicate(1));
    receive(&mut received, &POLICY, [6]);
    let (_, receipt) = tell(&mut received);
    received.numbers.on_ack_acked(receipt);
    receive(&mut received, &POLICY, [8]);
    assert_eq!(ack_in(&mut received, at(1_050), 100).unwrap().0, [(8, 8)]);
    assert!(!received.is_duplicate(5), "known to the peer, but not old");
    assert_eq!(ack_in(&mut received, at(2_060), 100).unwrap().0, [(8, 8)]);
    assert!(received.is_duplicate(1) && received.is_duplicate(5) && !received.is_duplicate(7));
}

/// Generates configurations from all range orders, horizons and range limits.
fn strategies() -> impl Strategy<Value = AckConfig> {
    let order = proptest::sample::select(RangeOrder::NAMES.to_vec());
    let horizon = proptest::sample::select(vec![
        Horizon::None,
        Horizon::Packets(20),
        Horizon::Delay { age: Duration::from_millis(5), times_sent: 2 },
    ]);
    (order, horizon, 2usize..12).prop_map(|(order, horizon, max_ranges)| AckConfig {
        order: Some(order.parse().unwrap()),
        horizon,
        max_ranges,
        ..AckConfig::default()
    })
}

proptest! {
    /// Checks two paths that share their numbers, with any strategy. A frame reports only received numbers,
    /// in at most as many ranges as allowed. The ranges are apart from each other, and the path's largest
    /// comes first. No packet is received twice.
    #[test]
    fn no_strategy_names_what_did_not_come(
        config in strategies(),
        steps in proptest::collection::vec((0u64..120, any::<bool>(), 0u8..3, proptest::option::of(0usize..4)), 1..200),
    ) {
        let (mut numbers, mut one, mut other) = shared(&config);
        let (mut all, mut frames) = (BTreeSet::new(), Vec::new());
        for (step, (pn, first, write, confirm)) in (0..).zip(steps) {
            let ack = if first { &mut one } else { &mut other };
            prop_assert!(numbers.is_duplicate(pn) || !all.contains(&pn), "{} twice", pn);
            if !numbers.is_duplicate(pn) {
                receive_one(&mut numbers, ack, at(step), pn, &POLICY);
                all.insert(pn);
            }
            let Some(largest) = ack.largest().filter(|_| write == 0) else { continue };
            if numbers.is_duplicate(largest) && !numbers.ranges.contains(largest) {
                let mut w = Writer::new(&mut [], Direction::Forward);
                let mut tokens = Tokens::new();
                let written = ack.write_ack(at(step), &mut w, AckForm { space: SpaceId::Data, multipath: false, ack_delay_exponent: 3 }, &mut numbers, &mut tokens);
                prop_assert!(written == 0 && !ack.ack_now() && ack.ack_deadline().is_none(), "nothing is left to say");
            } else {
                let (ranges, receipt) = tell_for(&mut numbers, ack, at(step));
                prop_assert!(ranges.len() <= config.max_ranges);
                prop_assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0), "{:?}", ranges);
                prop_assert!(ranges.iter().all(|range| (range.0..=range.1).all(|pn| all.contains(&pn))), "{:?}", ranges);
                prop_assert_eq!(ranges[0].1, largest);
                frames.push(receipt);
            }
            if let Some(index) = confirm.filter(|index| *index < frames.len()) {
                numbers.on_ack_acked(frames[frames.len() - 1 - index]);
            }
        }
    }
}
