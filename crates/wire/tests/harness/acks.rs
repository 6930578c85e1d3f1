//! Invariants of ACK frames, whose ranges are compared with a set of packet numbers.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use anabranch_testkit::source::Source;
use anabranch_wire::{Direction, EcnCounts, Frame, Frames, PathId, Writer, write_ack};

/// Maximum number of runs of packet numbers that an input adds to the set.
const MAX_RUNS: usize = 64;

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let path = source.flag().then(|| PathId(u32::from(source.number())));
    let delay = source.value();
    let ecn =
        source.flag().then(|| EcnCounts { ect0: source.value(), ect1: source.value(), ce: source.value() });
    let room = usize::from(source.number() % 600);
    let base = source.value() / 2;
    let mut numbers = BTreeSet::new();
    for _ in 0..MAX_RUNS {
        if source.is_empty() {
            break;
        }
        let first = base + u64::from(source.number());
        numbers.extend(first..=first + u64::from(source.byte() % 8));
    }
    let ranges = ranges(&numbers);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut buf = vec![0xff; room];
        let mut writer = Writer::new(&mut buf, direction);
        let Ok(count) = write_ack(&mut writer, path, ranges.iter().cloned(), delay, ecn) else {
            assert!(writer.is_empty(), "a frame that does not fit leaves nothing");
            continue;
        };
        assert!(count > 0 || ranges.is_empty());
        let written = writer.into_written();
        if ranges.is_empty() {
            assert!(written.is_empty());
            continue;
        }
        let frame = Frames::new(written, direction).next();
        let Some(Ok(Frame::Ack(ack))) = frame else { panic!("{frame:?}") };
        assert!(ack.ranges().eq(ranges[..count].iter().cloned()));
        assert_eq!((ack.path, ack.delay, ack.ecn), (path, delay, ecn));
        assert_eq!((ack.largest, ack.range_count()), (*ranges[0].end(), count as u64));
        // One more range would not have fitted, unless all have.
        assert!(count == ranges.len() || room - written.len() < 16);
    }
}

/// Returns the ranges of a set in descending order.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for &number in numbers.iter().rev() {
        match ranges.last_mut() {
            Some(range) if *range.start() == number + 1 => *range = number..=*range.end(),
            _ => ranges.push(number..=number),
        }
    }
    ranges
}
