use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(Range<u64>),
    Remove(Range<u64>),
    PopMin,
}

fn range() -> impl Strategy<Value = Range<u64>> {
    (0u64..60, 0u64..12).prop_map(|(start, len)| start..start + len)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => range().prop_map(Op::Insert),
        3 => range().prop_map(Op::Remove),
        1 => Just(Op::PopMin),
    ]
}

fn check(set: &RangeSet, model: &BTreeSet<u64>) {
    let listed: Vec<Range<u64>> = set.iter().collect();
    assert!(listed.iter().all(|range| range.start < range.end), "no empty range in {listed:?}");
    assert!(listed.windows(2).all(|pair| pair[0].end < pair[1].start), "sorted and apart: {listed:?}");
    assert!(listed.iter().cloned().flatten().eq(model.iter().copied()));
    assert_eq!(set.len(), listed.len());
    assert_eq!(set.max(), model.last().copied());
    assert_eq!(set.is_empty(), model.is_empty());
    assert_eq!(set.first(), listed.first().cloned());
}

proptest! {
    #[test]
    fn behaves_like_a_set(ops in prop::collection::vec(op(), 0..60), probe in range()) {
        let mut set = RangeSet::default();
        let mut model = BTreeSet::new();
        for op in ops {
            match op {
                Op::Insert(range) => {
                    let touches = (range.start.saturating_sub(1)..=range.end).any(|value| model.contains(&value));
                    prop_assert_eq!(set.touches(&range), touches);
                    let added: Vec<u64> = range.clone().filter(|value| model.insert(*value)).collect();
                    let mut told = Vec::new();
                    prop_assert_eq!(set.insert_with(range, |new| told.extend(new)), added.len() as u64);
                    told.sort_unstable();
                    prop_assert_eq!(told, added);
                }
                Op::Remove(range) => {
                    let removed = range.clone().filter(|value| model.remove(value)).count();
                    prop_assert_eq!(set.remove(range), removed as u64);
                }
                Op::PopMin => {
                    let popped = set.pop_min();
                    prop_assert_eq!(popped.is_some(), !model.is_empty());
                    for value in popped.into_iter().flatten() {
                        prop_assert!(model.remove(&value));
                    }
                }
            }
            check(&set, &model);
        }
        let missing: Vec<u64> = probe.clone().filter(|value| !model.contains(value)).collect();
        prop_assert_eq!(set.gaps(probe.clone()).flatten().collect::<Vec<_>>(), missing);
        prop_assert!(set.gaps(probe).all(|gap| !gap.is_empty()));
        for value in 0..80 {
            prop_assert_eq!(set.contains(value), model.contains(&value));
        }
    }
}

#[test]
fn descends() {
    let mut set = RangeSet::default();
    for range in [5..7, 0..2, 10..11] {
        set.insert(range);
    }
    assert_eq!(set.iter().rev().collect::<Vec<_>>(), [10..11, 5..7, 0..2]);
}

#[test]
fn a_set_of_one_range_owns_no_memory() {
    let mut set = RangeSet::default();
    set.insert(1..2);
    set.insert(2..9);
    assert_eq!(set, RangeSet { last: Some(1..9), below: BTreeMap::new() });
    set.clear();
    assert_eq!(set, RangeSet::default());
}
