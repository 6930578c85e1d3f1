use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::{Direction, Frame, Frames, Writer, write_ack};
use proptest::prelude::*;

use super::*;
use crate::config::AckConfig;

fn single() -> (Single, Random) {
    (Single::new(PerPath::default(), Numbers::shared(&AckConfig::default()), 0), Random::new([5; 32]))
}

fn send(single: &mut Single, random: &mut Random, path: u32) -> Numbered {
    let numbered = single.next(PathId(path), random, Some(10));
    single.commit(PathId(path));
    numbered
}

/// Calls `with` with the ranges of an ACK frame that reports `ranges`, which must descend.
fn with_ack<R>(ranges: &[RangeInclusive<u64>], with: impl FnOnce(AckRanges<'_>) -> R) -> R {
    let mut buf = vec![0; 20 * ranges.len() + 100];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    assert_eq!(write_ack(&mut w, None, ranges.iter().cloned(), 0, None).map_err(|_| ()), Ok(ranges.len()));
    let frame = Frames::new(w.written(), Direction::Forward).next().unwrap().unwrap();
    let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
    with(ack.ranges())
}

fn orders(single: &Single, path: u32, ranges: &[RangeInclusive<u64>]) -> Vec<u64> {
    with_ack(ranges, |ranges| single.orders(PathId(path), ranges).flat_map(Iterator::rev).collect())
}

#[test]
fn one_line_of_numbers_and_an_order_for_each_path() {
    let (mut single, mut random) = single();
    let sent: Vec<_> = [0, 0, 1, 0, 1, 1].map(|path| send(&mut single, &mut random, path)).into();
    let numbered = |number, order| Numbered { number, order };
    assert_eq!(sent[..3], [numbered(0, 0), numbered(1, 1), numbered(2, 0)]);
    assert_eq!(sent[3..], [numbered(3, 2), numbered(4, 1), numbered(5, 2)]);
    assert_eq!(single.next(PathId(1), &mut random, Some(10)), numbered(6, 3), "not used up before it leaves");
    assert_eq!(single.next(PathId(0), &mut random, Some(10)), numbered(6, 3));
    assert_eq!(orders(&single, 0, &[0..=5]), [2, 1, 0]);
    assert_eq!(orders(&single, 1, &[0..=5]), [2, 1, 0]);
    assert_eq!(orders(&single, 1, &[5..=5, 1..=3]), [2, 0]);
    assert_eq!(orders(&single, 2, &[0..=5]), []);
    assert_eq!(single.path_of(2), Some(PathId(1)));
    assert_eq!((single.number_of(PathId(1), 1), single.number_of(PathId(1), 3)), (Some(4), None));
}

#[test]
fn the_numbers_before_go_on() {
    let mut before = PerPath::default();
    let mut random = Random::new([5; 32]);
    for _ in 0..7 {
        before.next(PathId::ZERO, &mut random, Some(10));
        before.commit(PathId::ZERO);
    }
    before.on_acked(PathId::ZERO, 4);
    let mut single = Single::new(before, Numbers::shared(&AckConfig::default()), 0);
    assert_eq!(send(&mut single, &mut random, 0), Numbered { number: 7, order: 7 });
    assert_eq!(send(&mut single, &mut random, 1), Numbered { number: 8, order: 0 });
    assert_eq!(orders(&single, 0, &[3..=8]), [7, 6, 5, 4, 3]);
    assert_eq!(single.line.largest_acked, Some(4));
}

#[test]
fn numbers_never_sent_are_known() {
    let (mut single, mut random) = single();
    let mut sent = Vec::new();
    for n in 0..20_000 {
        sent.push(send(&mut single, &mut random, n % 2).number);
    }
    let largest = *sent.last().unwrap();
    let skipped: Vec<u64> = (0..largest).filter(|number| sent.binary_search(number).is_err()).collect();
    assert!(skipped.len() > 2 * MAX_SKIPPED, "{} skipped", skipped.len());
    assert_eq!(single.skipped.len(), MAX_SKIPPED);
    let unsent = |single: &Single, range| with_ack(&[range], |ranges| single.unsent(ranges));
    assert_eq!(unsent(&single, largest..=largest), None);
    assert_eq!(unsent(&single, largest + 1..=largest + 1), Some(largest + 1));
    // All packets are acknowledged, and skipped numbers are still detected.
    single.forget_done(|_| Some(u64::MAX));
    assert_eq!(single.held().0, 0);
    for number in &skipped[skipped.len() - single.skipped.len()..] {
        assert_eq!(unsent(&single, *number..=*number), Some(*number));
        assert_eq!(unsent(&single, number - 1..=number + 1), Some(*number));
        assert_eq!(unsent(&single, number + 1..=number + 1), None);
    }
}

/// Row M12: packets in flight on a slow path do not make the memory grow without bound, regardless of the
/// traffic on a fast path.
#[test]
fn row_m12_runs_are_bounded() {
    let (mut single, mut random) = single();
    send(&mut single, &mut random, 9);
    let mut most = 0;
    for n in 0..2 * MAX_BLOCKS as u32 {
        send(&mut single, &mut random, n % 2);
        // The packet on path 9 is never acknowledged.
        single.forget_done(|path| Some(if path == PathId(9) { 0 } else { u64::MAX }));
        most = most.max(single.held().0);
    }
    assert_eq!(most, MAX_BLOCKS);
    assert_eq!(single.path_of(0), None, "forgotten");
    assert_eq!(orders(&single, 9, &[0..=0]), []);
    assert!(single.held().0 < 2, "nothing else was held back");
    // Packets of the fast path alone take no further memory.
    let before = single.held().0;
    for _ in 0..10_000 {
        send(&mut single, &mut random, 1);
    }
    assert!(single.held().0 - before <= 10_000 / 32 && single.held().0 <= MAX_BLOCKS);
}

#[test]
fn runs_of_paths_that_are_gone_or_settled_are_forgotten_from_the_front() {
    let (mut single, mut random) = single();
    for path in [0, 1, 2, 2, 1, 0] {
        send(&mut single, &mut random, path);
    }
    single.forget(PathId(2));
    let done = |path: PathId| [Some(1), Some(1), None][path.0 as usize];
    single.forget_done(done);
    assert_eq!(single.blocks.iter().map(|run| run.first).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(with_ack(&[0..=5], |ranges| single.unsent(ranges)), None, "late, but no lie");
    assert_eq!(orders(&single, 1, &[0..=5]), [1]);
}

#[test]
fn a_number_is_encoded_for_a_peer_that_has_seen_much_larger_ones() {
    let (mut single, mut random) = single();
    let slow = send(&mut single, &mut random, 1).number;
    let len = anabranch_wire::packet_number_len(single.unacked(slow));
    let bits = 8 * len as u32;
    let ahead = Some(slow + MAX_OVERTAKING);
    assert_eq!(anabranch_wire::decode_packet_number(ahead, slow & ((1 << bits) - 1), bits), slow);
    assert_eq!(len, 3);
}

proptest! {
    /// Compares with a plain map from number to path and order.
    #[test]
    fn like_a_map(
        paths in proptest::collection::vec(0u32..4, 1..300),
        mut bounds in proptest::collection::btree_set(0u64..320, 2..20),
        done in proptest::array::uniform4(0u64..40),
    ) {
        let (mut single, mut random) = single();
        let mut map = BTreeMap::new();
        for path in &paths {
            let numbered = send(&mut single, &mut random, *path);
            map.insert(numbered.number, (*path, numbered.order));
        }
        single.forget_done(|path| Some(done[path.0 as usize]));
        // Every packet that is not done is remembered, and what is remembered of the others is correct.
        let first = single.blocks.front().map_or(u64::MAX, |run| run.first);
        for (number, (path, order)) in &map {
            prop_assert!(*number >= first || *order < done[*path as usize]);
            let known = *number >= first;
            prop_assert_eq!(single.path_of(*number), known.then_some(PathId(*path)));
            prop_assert_eq!(single.number_of(PathId(*path), *order), known.then_some(*number));
        }
        // Every second bound begins a range, which ends before the next bound.
        if bounds.len() % 2 == 1 {
            bounds.pop_first();
        }
        let bounds: Vec<u64> = bounds.into_iter().collect();
        let mut ranges: Vec<_> = bounds.chunks(2).map(|pair| pair[0]..=pair[1] - 1).collect();
        ranges.reverse();
        ranges.dedup_by(|low, high| *low.end() + 1 >= *high.start());
        for path in 0..4 {
            let named = |number: &u64| ranges.iter().any(|range| range.contains(number));
            let expected: Vec<u64> = map
                .iter()
                .rev()
                .filter(|(number, (on, _))| **number >= first && *on == path && named(number))
                .map(|(_, (_, order))| *order)
                .collect();
            prop_assert_eq!(orders(&single, path, &ranges), expected);
        }
    }

    /// Checks for any frames that each number is new once, and that numbers never sent are always new.
    #[test]
    fn what_was_named_before_is_no_news(
        paths in proptest::collection::vec(0u32..3, 200..400),
        frames in proptest::collection::vec(proptest::collection::btree_set(0u64..420, 2..20), 1..30),
        done in 0u64..60,
    ) {
        let (mut single, mut random) = single();
        let sent: BTreeSet<u64> = paths.iter().map(|path| send(&mut single, &mut random, *path).number).collect();
        let mut known: BTreeSet<u64> = BTreeSet::new();
        for (at, bounds) in frames.into_iter().enumerate() {
            if at == 5 {
                single.forget_done(|_| Some(done));
                let first = single.blocks.front().map_or(u64::MAX, |run| run.first);
                known.extend(sent.range(..first));
            }
            let bounds: Vec<u64> = bounds.into_iter().collect();
            let mut ranges: Vec<_> = bounds.chunks_exact(2).map(|pair| pair[0]..=pair[1] - 1).collect();
            ranges.reverse();
            ranges.dedup_by(|low, high| *low.end() + 1 >= *high.start());
            let news = with_ack(&ranges, |ranges| single.news(ranges));
            let expected: Vec<u64> =
                ranges.iter().flat_map(|range| range.clone().rev()).filter(|number| !known.contains(number)).collect();
            prop_assert_eq!(news.iter().flat_map(|range| range.clone().rev()).collect::<Vec<_>>(), expected);
            let honest: Vec<_> = news.into_iter().flat_map(|range| range.rev()).filter(|n| sent.contains(n)).collect();
            known.extend(&honest);
            honest.into_iter().for_each(|number| single.on_named(&[number..=number]));
        }
    }
}

/// Row M12: a peer that acknowledges every other number does not make this end remember more ranges than the
/// maximum.
#[test]
fn row_m12_what_is_named_is_bounded() {
    let (mut single, mut random) = single();
    for _ in 0..4 * MAX_NAMED as u64 {
        send(&mut single, &mut random, 0);
    }
    for number in (0..4 * MAX_NAMED as u64).step_by(2) {
        single.on_named(&[number..=number]);
    }
    assert_eq!(single.named.len(), MAX_NAMED);
    let last = 4 * MAX_NAMED as u64 - 2;
    assert!(with_ack(&[last..=last], |ranges| single.news(ranges)).is_empty());
    assert_eq!(with_ack(&[0..=0], |ranges| single.news(ranges))[..], [0..=0], "forgotten, and of no effect");
}
