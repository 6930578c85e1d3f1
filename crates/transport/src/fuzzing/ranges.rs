//! Sets of ranges, compared with a set of single values.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ranges::RangeSet;

/// Applies the input's operations, of three bytes each, to a [`RangeSet`] and to a model.
///
/// # Panics
/// Panics if the two differ.
pub fn ranges(data: &[u8]) {
    let mut set = RangeSet::default();
    let mut model = BTreeSet::new();
    for &[operation, start, len] in data.as_chunks().0 {
        let start = u64::from(start);
        let range = start..start + u64::from(len % 32);
        let inside: Vec<u64> = model.range(range.clone()).copied().collect();
        let outside: Vec<u64> = range.clone().filter(|value| !model.contains(value)).collect();
        match operation % 5 {
            0 | 1 => {
                let mut news = BTreeSet::new();
                let added = set.insert_with(range.clone(), |new| news.extend(new));
                assert_eq!(added, outside.len() as u64);
                assert!(news.iter().eq(&outside), "each new value is reported");
                model.extend(range.clone());
            }
            2 => {
                assert_eq!(set.remove(range.clone()), inside.len() as u64);
                model.retain(|value| !range.contains(value));
            }
            3 => {
                assert!(set.within(range.clone()).flatten().eq(inside));
                assert!(set.gaps(range.clone()).flatten().eq(outside));
                let near = range.start.saturating_sub(1)..range.end + 1;
                assert_eq!(set.touches(&range), model.range(near).next().is_some());
            }
            _ => {
                if let Some(lowest) = set.pop_min() {
                    lowest.for_each(|value| assert!(model.remove(&value)));
                }
            }
        }
        compare(&set, &model, start);
    }
}

fn compare(set: &RangeSet, model: &BTreeSet<u64>, value: u64) {
    let ranges: Vec<Range<u64>> = set.iter().collect();
    assert!(ranges.iter().cloned().flatten().eq(model.iter().copied()));
    assert!(ranges.iter().all(|range| !range.is_empty()));
    assert!(ranges.is_sorted_by(|below, above| below.end < above.start), "ranges do not touch");
    assert_eq!((set.len(), set.is_empty()), (ranges.len(), model.is_empty()));
    assert_eq!((set.max(), set.first()), (model.last().copied(), ranges.first().cloned()));
    assert_eq!(set.contains(value), model.contains(&value));
    assert_eq!(set.range_of(value), ranges.into_iter().find(|range| range.contains(&value)));
}
